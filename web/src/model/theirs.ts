/** Programs that are on every machine and that nobody operates as a service of theirs. */

const GROUPS: readonly [what: string, names: RegExp][] = [
  ["shells", /^(ba|z|fi|da|k|tc|c)?sh$|^(sudo|su|tmux|screen|login|sshd?|scp|sftp|rsync)$/],
  [
    "command-line clients",
    /^(curl|wget|httpie?|telnet|nc|ncat|socat|ping|dig|nslookup|host|psql)$/,
  ],
  ["browsers", /^(chrom|google-chrome|msedge|firefox|safari|brave|opera|headless[-_ ]shell)/],
  [
    "package managers",
    /^(apt|apt-get|aptitude|dpkg|dnf|yum|rpm|zypper|apk|pacman|snapd?|flatpak|brew|npm|npx|yarn|pnpm|pip3?|uv|cargo|rustup|go|gem|mvn|gradle|git(-remote-https?)?|packagekitd|unattended-upgr.*)$/,
  ],
  [
    "name servers",
    /^(systemd-resolved?|dnsmasq|named|unbound|coredns|nscd|avahi-daemon)$|^dns |:53$/,
  ],
  [
    "the operating system",
    /^(systemd(-.*)?|init|cron|crond|anacron|NetworkManager|chronyd|ntpd|dbus-daemon|dhclient|dhcpcd|rsyslogd|polkitd)$/,
  ],
];

/** The node of the graph for calls whose other end nobody named. */
export const UNKNOWN = "unknown";

/** The kinds of programs that are folded away, in words. */
export const THEIRS: string = GROUPS.map(([what]) => what).join(", ");

/** What kind of program has this name, or null for a service. */
export function theirs(name: string): string | null {
  const plain = name.toLowerCase().replace(/^.*\//, "");
  return GROUPS.find(([, names]) => names.test(name) || names.test(plain))?.[0] ?? null;
}
