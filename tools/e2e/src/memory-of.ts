import { readFileSync } from 'node:fs';

/** A figure of `/proc/<pid>/status` in bytes: what is resident (`VmRSS`), or its peak (`VmHWM`). */
export function memoryOf(pid: number | undefined, figure: 'VmRSS' | 'VmHWM'): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const [, kilobytes] = new RegExp(`^${figure}:\\s+(\\d+) kB$`, 'm').exec(status) ?? [];
  return Number(kilobytes) * 1024;
}
