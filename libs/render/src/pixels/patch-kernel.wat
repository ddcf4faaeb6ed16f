;; Cuts patches out of an image, sixteen pixels at a time. `patch-kernel.ts` holds the module that `wat2wasm` makes of this
;; file; after a change: UPDATE_GOLDEN=1 npx nx test @llm-d/render -- --testPathPatterns=patch-kernel
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
      (br_if $channel (i32.lt_u (local.get $masks) (i32.const 144))))))
