import { badRequest, requestedModel, unknownModel } from '@llm-d/render';

import { type ModelBackend, type ModelCard } from './model-backend.ts';

/** The models of this process, by their names. */
export class ModelTable {
  private readonly backends: readonly ModelBackend[];
  private readonly byName = new Map<string, ModelBackend>();

  /** Throws when two entries claim one name. */
  constructor(backends: readonly ModelBackend[]) {
    this.backends = backends;
    for (const backend of backends) {
      for (const id of backend.ids) {
        if (this.byName.has(id)) throw new Error(`two models are called ${id}`);
        this.byName.set(id, backend);
      }
    }
  }

  get cards(): readonly ModelCard[] {
    return this.backends.flatMap((backend) => backend.cards());
  }

  /** True when every model can answer. */
  get isReady(): boolean {
    return this.backends.every(({ isReady }) => isReady);
  }

  /**
   * The backend that a request names; a single model needs no name. A single model that checks names itself is always
   * it, so that the checks come in vLLM's order. Throws 404 for an unknown name and 400 for none among several.
   */
  choose(body: Uint8Array): ModelBackend {
    const [only] = this.backends;
    const isAlone = this.backends.length === 1;
    if (only !== undefined && isAlone && only.checksModel) return only;
    const model = requestedModel(body);
    const names = [...this.byName.keys()];
    if (model === undefined || model === '') {
      if (only !== undefined && isAlone) return only;
      throw badRequest(
        `This server has several models, name one of them: ${names.join(', ')}. (parameter=model)`,
        'model',
      );
    }
    const backend = this.byName.get(model);
    if (backend === undefined) throw unknownModel(model, names);
    return backend;
  }

  /** Releases what the models hold; requests in flight are rejected. */
  async close(): Promise<void> {
    await Promise.all(this.backends.map((backend) => backend.close()));
  }
}
