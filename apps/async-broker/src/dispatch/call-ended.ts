import { type Fault } from './attempt.ts';

/** Reason of an abort that this process decided on, so that whoever awaits the call knows which it was. */
export class CallEnded extends Error {
  override readonly name = 'CallEnded';
  readonly fault: Fault;

  constructor(fault: Fault) {
    super(`the call was ended: ${fault}`);
    this.fault = fault;
  }
}

/** The fault behind an abort's reason; BullMQ gives bare texts and errors of its own. */
export function faultOf(reason: unknown): Fault {
  return reason instanceof CallEnded ? reason.fault : 'cancelled';
}
