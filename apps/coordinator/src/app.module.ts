import { type DynamicModule, Module } from '@nestjs/common';
import { Lifecycle } from '@llm-d/service';
import {
  CompletionsController,
  type CompletionsOptions,
  completionsOptions,
} from './completions.controller.ts';
import { PassthroughHandler, type PassthroughHandlerOptions } from './passthrough-handler.ts';
import {
  modelsController,
  RequestsController,
  type RequestsOptions,
  requestsOptions,
} from './queue/requests.controller.ts';
import { RunningRequests } from './running-requests.ts';

/** Wiring of the coordinator's routes, and of the paths that have none. */
@Module({})
export class AppModule {
  static register(
    completions: CompletionsOptions,
    passthrough: PassthroughHandlerOptions | undefined,
    requests: RequestsOptions | undefined,
  ): DynamicModule {
    const models = requests?.requests.models;
    return {
      module: AppModule,
      controllers: [
        CompletionsController,
        ...(requests ? [RequestsController] : []),
        ...(models ? [modelsController(models)] : []),
      ],
      providers: [
        { provide: completionsOptions, useValue: completions },
        ...(requests ? [{ provide: requestsOptions, useValue: requests }] : []),
        {
          provide: RunningRequests,
          useFactory: (lifecycle: Lifecycle) => new RunningRequests(lifecycle),
          inject: [Lifecycle],
        },
        ...(passthrough
          ? [
              {
                provide: PassthroughHandler,
                useFactory: (running: RunningRequests) =>
                  new PassthroughHandler(passthrough, running),
                inject: [RunningRequests],
              },
            ]
          : []),
      ],
    };
  }
}
