// A short recording, treated as one that is too long for memory: GPUMEMPROF_WINDOW_EVENTS says how long its stretches are.

/** What is started within treats every recording as long. */
export async function asLong(start, events = 100) {
  process.env.GPUMEMPROF_WINDOW_EVENTS = String(events);
  try {
    return await start();
  } finally {
    delete process.env.GPUMEMPROF_WINDOW_EVENTS;
  }
}
