import { ProxyModel, UpstreamGroup } from '@llm-d/render';

import {
  type AnswerSink,
  type ModelBackend,
  type ModelCard,
  modelRoutes,
  type ModelRequest,
} from './model-backend.ts';
import { type UpstreamConfig } from './model-config.ts';
import { type RenderMetrics } from './render-metrics.ts';

/** Asks vLLM render servers. */
export class ProxyBackend implements ModelBackend {
  readonly checksModel = false;
  readonly ids: readonly string[];
  private readonly group: UpstreamGroup;
  private readonly model: ProxyModel;
  private readonly upstreamModel: string | undefined;

  private constructor(config: UpstreamConfig, group: UpstreamGroup, metrics: RenderMetrics) {
    this.ids = config.ids;
    this.group = group;
    this.upstreamModel = config.model;
    const name = config.ids[0] ?? '';
    this.model = new ProxyModel(group, config, metrics.upstreams(name));
    metrics.watchUpstreams(name, group);
  }

  /** Looks at the upstreams once; resolves whatever their state. */
  static async start(config: UpstreamConfig, metrics: RenderMetrics): Promise<ProxyBackend> {
    const { addresses, timeoutMs, probeMs } = config;
    const group = new UpstreamGroup(addresses, {
      headersMs: timeoutMs,
      ...(probeMs !== undefined && { probeMs }),
    });
    await group.start();
    return new ProxyBackend(config, group, metrics);
  }

  get isReady(): boolean {
    return this.group.isHealthy;
  }

  cards(): ModelCard[] {
    const known = this.group.upstreams.flatMap(({ models }) => models);
    return this.ids.map((id) => {
      const model = known.find((other) => other.id === (this.upstreamModel ?? id)) ?? known[0];
      return { id, root: model?.root ?? id, maxModelLen: model?.maxModelLen ?? null };
    });
  }

  async answer(request: ModelRequest, sink: AnswerSink): Promise<void> {
    const { body, headers, signal, route } = request;
    await this.model.answer({ path: modelRoutes[route], body, headers, signal }, sink);
  }

  async close(): Promise<void> {
    await this.group.close();
  }
}
