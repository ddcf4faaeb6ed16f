import { type Feedback } from '../gates/aimd.ts';
import { type Attempt, isAnswer } from './attempt.ts';

/** What the end of an attempt says of the target's capacity (aimd of 3.3). */
export function feedbackOf(attempt: Attempt): Feedback {
  if (!isAnswer(attempt)) return 'neutral';
  const { status, droppedReason = '' } = attempt;
  if (status >= 200 && status < 300) return 'accepted';
  if (droppedReason === 'rejected-ttl-expired') return 'expired';
  const isCapacity = droppedReason === 'rejected-saturated';
  return isCapacity || (status === 429 && droppedReason === '') ? 'saturated' : 'neutral';
}
