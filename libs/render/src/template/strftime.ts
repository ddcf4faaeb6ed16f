import { notImplemented } from '../errors.ts';

const MONTHS =
  'January February March April May June July August September October November December'.split(
    ' ',
  );
const DAYS = 'Sunday Monday Tuesday Wednesday Thursday Friday Saturday'.split(' ');

/** `datetime.strftime` in local time and the C locale, for the directives that chat templates use. */
export function strftime(date: Date, format: string): string {
  return format.replace(/%(-?)([a-zA-Z%])/g, (_, dash: string, letter: string) => {
    const text = directive(date, letter);
    return dash === '-' ? text.replace(/^0+(?=\d)/, '') : text;
  });
}

function directive(date: Date, letter: string): string {
  const month = MONTHS[date.getMonth()] ?? '';
  const day = DAYS[date.getDay()] ?? '';
  switch (letter) {
    case 'Y':
      return String(date.getFullYear());
    case 'y':
      return two(date.getFullYear() % 100);
    case 'm':
      return two(date.getMonth() + 1);
    case 'd':
      return two(date.getDate());
    case 'H':
      return two(date.getHours());
    case 'I':
      return two(date.getHours() % 12 || 12);
    case 'M':
      return two(date.getMinutes());
    case 'S':
      return two(date.getSeconds());
    case 'p':
      return date.getHours() < 12 ? 'AM' : 'PM';
    case 'B':
      return month;
    case 'b':
      return month.slice(0, 3);
    case 'A':
      return day;
    case 'a':
      return day.slice(0, 3);
    case '%':
      return '%';
    default:
      throw notImplemented(`strftime directive %${letter}`);
  }
}

function two(value: number): string {
  return String(value).padStart(2, '0');
}
