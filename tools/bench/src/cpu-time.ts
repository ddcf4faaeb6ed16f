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
  const processes = allProcesses();
  const ticks = inside(pid, processes).reduce(
    (sum, id) => sum + (processes.get(id)?.ticks ?? 0),
    0,
  );
  return (ticks / ticksPerSecond) * 1000;
}

/** A process and its living descendants. */
export const descendants = (pid: number): number[] => inside(pid, allProcesses());

function allProcesses(): Map<number, ProcessStat> {
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
  return processes;
}

function inside(pid: number, processes: ReadonlyMap<number, ProcessStat>): number[] {
  const isInside = (id: number): boolean =>
    id === pid || (id > 1 && isInside(processes.get(id)?.parent ?? 0));
  return [...processes.keys()].filter(isInside);
}
