import eslint from '@eslint/js';
import nx from '@nx/eslint-plugin';
import { defineConfig, globalIgnores } from 'eslint/config';
import tseslint from 'typescript-eslint';

const framework = ['@nestjs/*', 'rxjs', 'fastify', 'reflect-metadata'];
const backends = ['bullmq', 'ioredis', 'sharp'];

/** Which packages a kind of package may import; CONTRIBUTING.md has the table in words. */
const mayUse = (source, targets, banned = []) => ({
  sourceTag: `type:${source}`,
  onlyDependOnLibsWithTags: [...targets, 'testing'].map((tag) => `type:${tag}`),
  bannedExternalImports: banned,
});

const boundaries = {
  banTransitiveDependencies: true,
  depConstraints: [
    mayUse('core', ['core'], [...framework, ...backends]),
    mayUse('adapter', ['adapter', 'core'], framework),
    mayUse('nest', ['nest', 'adapter', 'core']),
    mayUse('app', ['nest', 'adapter', 'core']),
    mayUse('tool', ['tool', 'adapter', 'core'], framework),
    mayUse('testing', [], framework),
    // What somebody outside could write: the one package that steps are made with.
    mayUse('example', ['step-api'], [...framework, ...backends]),
  ],
};

export default defineConfig(
  globalIgnores(['**/dist', '**/coverage', '**/testdata', '.nx', '**/jest.config.mjs']),
  eslint.configs.recommended,
  {
    files: ['**/*.ts'],
    extends: [tseslint.configs.recommendedTypeChecked],
    plugins: { '@nx': nx },
    languageOptions: {
      parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname },
    },
    rules: {
      '@nx/enforce-module-boundaries': ['error', boundaries],
      '@typescript-eslint/switch-exhaustiveness-check': [
        'error',
        { considerDefaultExhaustiveForUnions: true },
      ],
      '@typescript-eslint/consistent-type-imports': ['error', { fixStyle: 'inline-type-imports' }],
      '@typescript-eslint/no-non-null-assertion': 'error',
      '@typescript-eslint/restrict-template-expressions': [
        'error',
        { allowNumber: true, allowBoolean: true },
      ],
    },
  },
  {
    files: ['**/*.mjs'],
    languageOptions: {
      globals: Object.fromEntries(
        [
          ...['process', 'console', 'URL', 'Buffer', 'performance', 'crypto', 'structuredClone'],
          ...['setTimeout', 'clearTimeout'],
        ].map((name) => [name, 'readonly']),
      ),
    },
    rules: { 'no-unused-vars': ['error', { ignoreRestSiblings: true }] },
  },
  {
    files: ['{apps,examples,libs}/*/src/**/*.ts'],
    ignores: ['**/*.test.ts', '**/testing.ts', 'libs/testing/**'],
    rules: {
      'no-console': 'error',
      'no-restricted-imports': [
        'error',
        {
          patterns: [
            { group: ['@llm-d/testing', '**/testing.ts'], message: 'Test helpers stay in tests.' },
          ],
        },
      ],
    },
  },
  {
    files: ['{apps,libs}/*/src/**/*.ts'],
    ignores: ['**/*.test.ts', '**/main.ts', 'libs/testing/**'],
    rules: {
      'no-restricted-properties': [
        'error',
        { object: 'process', property: 'env', message: 'Only main.ts reads the environment.' },
      ],
    },
  },
);
