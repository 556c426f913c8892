// Light or dark: as chosen before, else as the system has it.

const KEY = "gpumemprof-theme";

export function savedTheme(): string {
  let saved: string | null = null;
  try {
    saved = localStorage.getItem(KEY);
  } catch {
    // Some browsers refuse storage to local files.
  }
  return saved ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

export function saveTheme(theme: string): void {
  document.documentElement.dataset["theme"] = theme;
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // It lasts until the page is closed.
  }
}
