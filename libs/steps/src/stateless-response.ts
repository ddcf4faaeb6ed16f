import { BadRequestError, type RequestContext } from '@llm-d/pipeline';
import { mediaParts } from './media-parts.ts';

/**
 * Refuses requests to `/v1/responses` that only a server with a memory could serve; workers have none in common
 * (coordinator.md 8.7). Requests to other paths may have these fields.
 *
 * @throws BadRequestError naming the field.
 */
export function checkStatelessResponse(ctx: RequestContext): void {
  if (ctx.api !== 'responses') return;
  const { body } = ctx;
  for (const name of ['previous_response_id', 'conversation']) {
    const value = body.get(name);
    if (value && !value.isNull()) {
      throw refused(name, 'is not served: no state is kept between requests');
    }
  }
  if (body.isTrue('background')) {
    throw refused('background', 'is not served: the answer comes while it is made');
  }
  const input = body.get('input');
  if (input && input.kind !== 'string' && input.kind !== 'array') {
    throw refused('input', 'must be a text or a list of items');
  }
  // No step may serve a request whose images are files, not even one before replace-media-urls.
  mediaParts(ctx);
}

const refused = (param: string, message: string): BadRequestError =>
  new BadRequestError(`${param} ${message}`, { param });
