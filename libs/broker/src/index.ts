export { allocateSlots, type LaneDemand } from './allocate-slots.ts';
export {
  type Broker,
  type BrokerHealth,
  type LaneBacklog,
  type ServerProblem,
  type Sweeper,
} from './broker.ts';
export {
  type BeginResult,
  type CancelListener,
  type CancelReason,
  type Dispatch,
  type DispatchRequest,
  type FinishResult,
  type ParkOptions,
  type ParkResult,
  type QuotaLease,
  type Standing,
} from './dispatch.ts';
export { BrokerInputError, BrokerUnavailableError } from './errors.ts';
export {
  type LaneWorker,
  type LaneWorkerOptions,
  type TicketEnd,
  type TicketHandler,
} from './lane-worker.ts';
export {
  isLaneName,
  isRequestId,
  newRequestId,
  type RequestName,
  type RequestRef,
  tenantProblem,
  type Ticket,
} from './names.ts';
export { type BrokerObserver, type RepairKind } from './observer.ts';
export { openBroker } from './open-broker.ts';
export {
  type AckDurability,
  type AdmissionLimits,
  type BrokerOptions,
  type BrokerRedis,
  type CompatCounters,
  type LaneConfig,
  type LaneOrder,
  type Lifetimes,
  type TenantConfig,
} from './options.ts';
export {
  type ErrorOutcome,
  type Outcome,
  type OutcomeCode,
  type ResponseOutcome,
} from './outcome.ts';
export {
  type CancelResult,
  type FetchResult,
  type Pending,
  type Ready,
  type Unknown,
  type WaitEnd,
  type WaitOptions,
  type WaitReady,
} from './retrieval.ts';
export {
  type Accepted,
  type Conflict,
  type QueuedMode,
  type RefusalReason,
  type Refused,
  type Submission,
  type SubmitResult,
  type Tier,
} from './submission.ts';
