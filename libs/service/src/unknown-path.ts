import { type FastifyReply, type FastifyRequest } from 'fastify';
import { type ErrorFilter } from './error.filter.ts';
import { discardUpload, hasUnreadBody } from './send-and-close.ts';
import { UnreadBody } from './unread-body.ts';
import { announcesBody, type PendingBodies } from './upload.ts';

/** Serves requests for paths that have no route. */
export interface UnknownPathHandler {
  /**
   * Answers on `reply.raw`, whole or cut. May leave the body unread, or read in part. What it throws is
   * answered like an error of a route.
   */
  serve(request: FastifyRequest, reply: FastifyReply, body: UnreadBody | undefined): Promise<void>;
}

/** Lets a handler answer a request, and sees to what it leaves of the upload. */
export function serveUnknownPath(
  handler: UnknownPathHandler,
  request: FastifyRequest,
  reply: FastifyReply,
  edge: {
    readonly filter: ErrorFilter;
    readonly bodyLimitBytes: number;
    readonly pendingBodies: PendingBodies;
  },
): void {
  const { filter, bodyLimitBytes, pendingBodies } = edge;
  const upload = request.raw;
  const body = announcesBody(upload)
    ? new UnreadBody(upload, reply.raw, bodyLimitBytes, pendingBodies, request.ticket)
    : undefined;
  reply.hijack();
  handler.serve(request, reply, body).then(
    () => {
      if (upload.destroyed) return;
      // The next request of this connection comes after what was left.
      if (!hasUnreadBody(upload)) upload.resume();
      else {
        discardUpload(upload, bodyLimitBytes, pendingBodies, () => {
          if (!upload.complete) upload.destroy();
        });
      }
    },
    (error: unknown) => {
      filter.answer(error, request, reply);
    },
  );
}
