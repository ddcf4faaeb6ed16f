/** How many of a lane's slots an operator's budget (0 to 1) leaves; only a budget of 0 closes a lane that has any. */
export function slotsWithin(slots: number, budget: number): number {
  return budget === 0 || slots === 0 ? 0 : Math.max(1, Math.floor(slots * budget));
}
