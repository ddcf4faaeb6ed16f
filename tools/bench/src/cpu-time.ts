import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

/** One process as `/proc/<pid>/stat` tells it; times in clock ticks. */
export interface ProcessStat {
  readonly parent: number;
  readonly ticks: number;
}

/** Reads a line of `/proc/<pid>/stat`; the name in brackets may hold blanks and brackets (proc(5)). */
export function parseStat(line: string): ProcessStat {
  const fields = line.slice(line.lastIndexOf(')') + 2).split(' ');
  // Fields 4 (ppid), 14 (utime) and 15 (stime), counted from 1; the slice starts at field 3.
  const [parent, utime, stime] = [1, 11, 12].map((index) => Number(fields[index]));
  return { parent: parent ?? 0, ticks: (utime ?? 0) + (stime ?? 0) };
}

let ticksPerSecond: number | undefined;

/** Milliseconds of CPU that a process and its living descendants have used. */
export function cpuMs(pid: number): number {
  ticksPerSecond ??= Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));
  const processes = new Map<number, ProcessStat>();
  for (const entry of readdirSync('/proc')) {
    if (/^\d+$/.test(entry)) {
      try {
        processes.set(Number(entry), parseStat(readFileSync(`/proc/${entry}/stat`, 'utf8')));
      } catch {
        // It has ended since the directory was read.
      }
    }
  }
  const isInside = (id: number): boolean =>
    id === pid || (id > 1 && isInside(processes.get(id)?.parent ?? 0));
  let ticks = 0;
  for (const [id, stat] of processes) if (isInside(id)) ticks += stat.ticks;
  return (ticks / ticksPerSecond) * 1000;
}
