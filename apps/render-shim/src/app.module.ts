import { Module, type DynamicModule } from '@nestjs/common';
import { Renderer } from '@llm-d/render';

import { RenderController } from './render.controller.ts';

/** Wires the controller to a loaded renderer. */
@Module({})
export class AppModule {
  static register(renderer: Renderer): DynamicModule {
    return {
      module: AppModule,
      controllers: [RenderController],
      providers: [{ provide: Renderer, useValue: renderer }],
    };
  }
}
