import { CoordinatorError } from '@llm-d/pipeline';

/** The request outlived `server.shutdown_timeout`; another replica can serve it. */
export class ShuttingDownError extends CoordinatorError {
  override readonly name = 'ShuttingDownError';
  override readonly code = 'SHUTTING_DOWN';
  override readonly status = 503;
  override readonly headers = ['retry-after', '1'];

  constructor() {
    super('the coordinator is shutting down');
  }
}
