export { type AppOptions, type Coordinator, createApp } from './app.ts';
