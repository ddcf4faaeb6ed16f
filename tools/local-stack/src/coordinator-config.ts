interface StepConfig {
  readonly type: string;
  readonly params: Readonly<Record<string, unknown>>;
}

/** What differs between the coordinators of one stack. */
export interface CoordinatorSettings {
  readonly usesOpenAiFormat?: boolean;
  /** Step types in order; steps that need params get them. */
  readonly steps?: readonly string[];
  /** A step before them. */
  readonly firstStep?: StepConfig | undefined;
  /** Another render service than the stack's own. */
  readonly renderUrl?: string;
  /** Params of `replace-media-urls`, laid over those that name the media fetcher. */
  readonly media?: Readonly<Record<string, unknown>>;
  /** Sections that are laid over the generated configuration. */
  readonly server?: Readonly<Record<string, unknown>>;
  readonly gateway?: Readonly<Record<string, unknown>>;
  readonly pipeline?: Readonly<Record<string, unknown>>;
  readonly env?: Readonly<Record<string, string>>;
}

/** Where the coordinator of a stack listens, and what its workers run. */
export interface CoordinatorPlace {
  readonly listenAddress: string;
  readonly gatewayUrl: string;
  readonly renderUrl: string;
  readonly kvConnector: string;
  readonly ecConnector: string;
}

/** The configuration file of a coordinator of the stack; docker-compose.yml has the same in deploy/compose. */
export function coordinatorConfig(place: CoordinatorPlace, settings: CoordinatorSettings = {}) {
  const { kvConnector, ecConnector } = place;
  const lastSteps = kvConnector === 'kv-sglang' ? ['prefill-decode'] : ['prefill', 'decode'];
  const types = settings.steps ?? ['replace-media-urls', 'render', 'encode', ...lastSteps];
  const params: Record<string, StepConfig['params']> = {
    render: { address: settings.renderUrl ?? place.renderUrl, mm_payload: 'auto' },
    'replace-media-urls': settings.media ?? {},
  };
  const steps: StepConfig[] = types.map((type) => ({ type, params: params[type] ?? {} }));
  if (settings.firstStep) steps.unshift(settings.firstStep);
  return {
    server: {
      listen_addr: place.listenAddress,
      metrics_port: 0,
      upstream_errors: 'relay',
      ...settings.server,
    },
    gateway: { address: place.gatewayUrl, ...settings.gateway },
    pipeline: {
      kv_connector: kvConnector,
      ec_connector: ecConnector,
      use_openai_format: settings.usesOpenAiFormat ?? true,
      kv_release: 'decode',
      steps,
      ...settings.pipeline,
    },
  };
}
