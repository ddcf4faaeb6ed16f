import { type DynamicModule, Module } from '@nestjs/common';
import { Lifecycle } from '@llm-d/service';
import {
  CompletionsController,
  type CompletionsOptions,
  completionsOptions,
} from './completions.controller.ts';
import { PassthroughHandler, type PassthroughHandlerOptions } from './passthrough-handler.ts';
import { RunningRequests } from './running-requests.ts';

/** Wiring of the coordinator's routes, and of the paths that have none. */
@Module({})
export class AppModule {
  static register(
    completions: CompletionsOptions,
    passthrough: PassthroughHandlerOptions | undefined,
  ): DynamicModule {
    return {
      module: AppModule,
      controllers: [CompletionsController],
      providers: [
        { provide: completionsOptions, useValue: completions },
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
