;; The loops over every byte of an image, several bytes at a time. `pixel-kernels.ts` holds the module that `wat2wasm` makes
;; of this file; after a change: UPDATE_GOLDEN=1 npx nx test @llm-d/render -- --testPathPatterns=pixel-kernels
(module
  (memory (export "memory") 1)

  ;; From three times sixteen bytes of RGB: where each channel's bytes are. 0x80 picks nothing.
  (data (i32.const 0)
    "\00\03\06\09\0c\0f\80\80\80\80\80\80\80\80\80\80" ;; red
    "\80\80\80\80\80\80\02\05\08\0b\0e\80\80\80\80\80"
    "\80\80\80\80\80\80\80\80\80\80\80\01\04\07\0a\0d"
    "\01\04\07\0a\0d\80\80\80\80\80\80\80\80\80\80\80" ;; green
    "\80\80\80\80\80\00\03\06\09\0c\0f\80\80\80\80\80"
    "\80\80\80\80\80\80\80\80\80\80\80\02\05\08\0b\0e"
    "\02\05\08\0b\0e\80\80\80\80\80\80\80\80\80\80\80" ;; blue
    "\80\80\80\80\80\01\04\07\0a\0d\80\80\80\80\80\80"
    "\80\80\80\80\80\80\80\80\80\80\00\03\06\09\0c\0f")

  ;; Writes a patch: for each channel the rows of $side pixels, twice. Reads up to 45 bytes behind the last row and writes up
  ;; to 15 behind the patch. What a row writes too much is overwritten by what follows it.
  (func (export "patch") (param $from i32) (param $rowBytes i32) (param $side i32) (param $to i32)
    (local $frameBytes i32) (local $masks i32) (local $row i32) (local $rows i32)
    (local $read i32) (local $write i32) (local $rowEnd i32)
    (local $red v128) (local $green v128) (local $blue v128)
    (local.set $frameBytes (i32.mul (local.get $side) (local.get $side)))
    (loop $channel
      (local.set $red (v128.load (local.get $masks)))
      (local.set $green (v128.load offset=16 (local.get $masks)))
      (local.set $blue (v128.load offset=32 (local.get $masks)))
      (local.set $row (local.get $from))
      (local.set $rows (local.get $side))
      (local.set $write (local.get $to))
      (loop $nextRow
        (local.set $read (local.get $row))
        (local.set $rowEnd (i32.add (local.get $write) (local.get $side)))
        (loop $pixels
          (v128.store (local.get $write)
            (v128.or
              (v128.or
                (i8x16.swizzle (v128.load (local.get $read)) (local.get $red))
                (i8x16.swizzle (v128.load offset=16 (local.get $read)) (local.get $green)))
              (i8x16.swizzle (v128.load offset=32 (local.get $read)) (local.get $blue))))
          (local.set $read (i32.add (local.get $read) (i32.const 48)))
          (local.set $write (i32.add (local.get $write) (i32.const 16)))
          (br_if $pixels (i32.lt_u (local.get $write) (local.get $rowEnd))))
        (local.set $write (local.get $rowEnd))
        (local.set $row (i32.add (local.get $row) (local.get $rowBytes)))
        (local.set $rows (i32.sub (local.get $rows) (i32.const 1)))
        (br_if $nextRow (local.get $rows)))
      (memory.copy (local.get $write) (local.get $to) (local.get $frameBytes))
      (local.set $to (i32.add (local.get $write) (local.get $frameBytes)))
      (local.set $masks (i32.add (local.get $masks) (i32.const 48)))
      (br_if $channel (i32.lt_u (local.get $masks) (i32.const 144)))))

  ;; Filters a row of pixels: for each of the new ones $windows has the place of its first old one in bytes, and how many there
  ;; are; $weights has as many numbers, $stride bytes from one pixel to the next. Writes one byte behind the row.
  (func (export "filterRow")
    (param $from i32) (param $to i32) (param $end i32)
    (param $windows i32) (param $weights i32) (param $stride i32) (param $bits i32)
    (local $half v128) (local $sum v128) (local $read i32) (local $weight i32) (local $taps i32)
    (local.set $half
      (i32x4.splat (i32.shl (i32.const 1) (i32.sub (local.get $bits) (i32.const 1)))))
    (loop $pixel
      (local.set $read (i32.add (local.get $from) (i32.load (local.get $windows))))
      (local.set $taps (i32.load offset=4 (local.get $windows)))
      (local.set $weight (local.get $weights))
      (local.set $sum (local.get $half))
      (loop $tap
        (local.set $sum
          (i32x4.add (local.get $sum)
            (i32x4.mul
              (i32x4.extend_low_i16x8_u (i16x8.extend_low_i8x16_u (v128.load32_zero (local.get $read))))
              (v128.load32_splat (local.get $weight)))))
        (local.set $read (i32.add (local.get $read) (i32.const 3)))
        (local.set $weight (i32.add (local.get $weight) (i32.const 4)))
        (local.set $taps (i32.sub (local.get $taps) (i32.const 1)))
        (br_if $tap (local.get $taps)))
      ;; Numbers that do not fit a byte become the nearest that does.
      (local.set $sum (i32x4.shr_s (local.get $sum) (local.get $bits)))
      (local.set $sum (i16x8.narrow_i32x4_s (local.get $sum) (local.get $sum)))
      (v128.store32_lane 0 (local.get $to)
        (i8x16.narrow_i16x8_u (local.get $sum) (local.get $sum)))
      (local.set $to (i32.add (local.get $to) (i32.const 3)))
      (local.set $windows (i32.add (local.get $windows) (i32.const 8)))
      (local.set $weights (i32.add (local.get $weights) (local.get $stride)))
      (br_if $pixel (i32.lt_u (local.get $to) (local.get $end)))))

  ;; Filters rows that lie one below the other into one. Reads and writes up to 15 bytes behind a row.
  (func (export "filterColumns")
    (param $from i32) (param $rowBytes i32) (param $rows i32) (param $weights i32) (param $bits i32) (param $to i32)
    (local $half v128) (local $a v128) (local $b v128) (local $c v128) (local $d v128)
    (local $bytes v128) (local $words v128) (local $weight v128)
    (local $end i32) (local $read i32) (local $weightAt i32) (local $left i32)
    (local.set $half
      (i32x4.splat (i32.shl (i32.const 1) (i32.sub (local.get $bits) (i32.const 1)))))
    (local.set $end (i32.add (local.get $to) (local.get $rowBytes)))
    (loop $piece
      (local.set $a (local.get $half))
      (local.set $b (local.get $half))
      (local.set $c (local.get $half))
      (local.set $d (local.get $half))
      (local.set $read (local.get $from))
      (local.set $weightAt (local.get $weights))
      (local.set $left (local.get $rows))
      (loop $row
        (local.set $weight (v128.load32_splat (local.get $weightAt)))
        (local.set $bytes (v128.load (local.get $read)))
        (local.set $words (i16x8.extend_low_i8x16_u (local.get $bytes)))
        (local.set $a
          (i32x4.add (local.get $a)
            (i32x4.mul (i32x4.extend_low_i16x8_u (local.get $words)) (local.get $weight))))
        (local.set $b
          (i32x4.add (local.get $b)
            (i32x4.mul (i32x4.extend_high_i16x8_u (local.get $words)) (local.get $weight))))
        (local.set $words (i16x8.extend_high_i8x16_u (local.get $bytes)))
        (local.set $c
          (i32x4.add (local.get $c)
            (i32x4.mul (i32x4.extend_low_i16x8_u (local.get $words)) (local.get $weight))))
        (local.set $d
          (i32x4.add (local.get $d)
            (i32x4.mul (i32x4.extend_high_i16x8_u (local.get $words)) (local.get $weight))))
        (local.set $read (i32.add (local.get $read) (local.get $rowBytes)))
        (local.set $weightAt (i32.add (local.get $weightAt) (i32.const 4)))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br_if $row (local.get $left)))
      (v128.store (local.get $to)
        (i8x16.narrow_i16x8_u
          (i16x8.narrow_i32x4_s
            (i32x4.shr_s (local.get $a) (local.get $bits))
            (i32x4.shr_s (local.get $b) (local.get $bits)))
          (i16x8.narrow_i32x4_s
            (i32x4.shr_s (local.get $c) (local.get $bits))
            (i32x4.shr_s (local.get $d) (local.get $bits)))))
      (local.set $from (i32.add (local.get $from) (i32.const 16)))
      (local.set $to (i32.add (local.get $to) (i32.const 16)))
      (br_if $piece (i32.lt_u (local.get $to) (local.get $end))))))
