import { badRequest, notImplemented } from '../errors.ts';
import { areEqual } from '../python/operators.ts';
import { Callable, HostObject, type Value } from '../python/value.ts';

/** The variable `loop` inside a `for` block. */
export class Loop extends HostObject {
  override readonly typeName = 'LoopContext';
  index0 = 0;
  private readonly items: readonly Value[];
  private lastChanged: readonly Value[] | undefined;

  constructor(items: readonly Value[]) {
    super();
    this.items = items;
  }

  override attribute(name: string): Value {
    const { index0, items } = this;
    switch (name) {
      case 'index':
        return BigInt(index0 + 1);
      case 'index0':
        return BigInt(index0);
      case 'revindex':
        return BigInt(items.length - index0);
      case 'revindex0':
        return BigInt(items.length - index0 - 1);
      case 'first':
        return index0 === 0;
      case 'last':
        return index0 === items.length - 1;
      case 'length':
        return BigInt(items.length);
      case 'previtem':
        return index0 === 0 ? undefined : items[index0 - 1];
      case 'nextitem':
        return items[index0 + 1];
      case 'cycle':
        return new Callable(name, ({ positional }) => {
          if (positional.length === 0) throw badRequest('no items for cycling given');
          return positional[index0 % positional.length];
        });
      case 'changed':
        return new Callable(name, ({ positional }) => this.changed(positional));
      default:
        throw notImplemented(`attribute loop.${name}`);
    }
  }

  private changed(values: readonly Value[]): boolean {
    const isSame = this.lastChanged !== undefined && areEqual([...this.lastChanged], [...values]);
    this.lastChanged = values;
    return !isSame;
  }
}
