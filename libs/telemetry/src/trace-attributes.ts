/**
 * Names of span attributes. Those of OpenTelemetry are written down here: its package of names loads slowly, and keeps the
 * GenAI ones apart as unstable.
 */
export const attribute = {
  method: 'http.request.method',
  route: 'http.route',
  urlPath: 'url.path',
  status: 'http.response.status_code',
  requestBytes: 'http.request.body.size',
  responseBytes: 'http.response.body.size',
  errorType: 'error.type',
  operation: 'gen_ai.operation.name',
  model: 'gen_ai.request.model',
  inputTokens: 'gen_ai.usage.input_tokens',
  requestId: 'llm_d.coordinator.request_id',
  stepCount: 'llm_d.coordinator.pipeline.step_count',
  executionPath: 'llm_d.coordinator.pipeline.execution_path',
  phase: 'llm_d.coordinator.leg.phase',
  legIndex: 'llm_d.coordinator.leg.index',
  servedBy: 'llm_d.coordinator.leg.served_by',
  runRequestId: 'request.id',
  queueId: 'queue.id',
  queueName: 'queue.name',
  retryCount: 'retry.count',
  errorCategory: 'error.category',
} as const;
