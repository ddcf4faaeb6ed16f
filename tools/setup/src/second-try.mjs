import { jest } from '@jest/globals';

/**
 * Under `npm test`, where ten thousand tests share a machine that may stall at any moment, a test
 * that fails runs once more at the end of its `describe`. Its first failure is printed, and the run names
 * it at its end; outside `npm test` a failure stays one.
 */
jest.retryTimes(1, { logErrorsBeforeRetry: true });
