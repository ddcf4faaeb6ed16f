import { type DynamicModule, Module } from '@nestjs/common';
import {
  CompletionsController,
  type CompletionsOptions,
  completionsOptions,
} from './completions.controller.ts';

/** Wiring of the coordinator's routes. */
@Module({})
export class AppModule {
  static register(options: CompletionsOptions): DynamicModule {
    return {
      module: AppModule,
      controllers: [CompletionsController],
      providers: [{ provide: completionsOptions, useValue: options }],
    };
  }
}
