// QR codes (ISO/IEC 18004) of texts up to 271 bytes: bytes in UTF-8, error
// correction level L, versions 1 to 10.

'use strict';

const QR = (() => {
  // Of each version: its codewords, those of error correction in each block, the
  // blocks, and the centres of alignment patterns after the one at 6.
  const VERSIONS = [[26, 7, 1, []], [44, 10, 1, [18]], [70, 15, 1, [22]],
    [100, 20, 1, [26]], [134, 26, 1, [30]], [172, 18, 2, [34]],
    [196, 20, 2, [22, 38]], [242, 24, 2, [24, 42]], [292, 30, 2, [26, 46]],
    [346, 18, 4, [28, 50]]];

  const MASKS = [(x, y) => (x + y) % 2, (x, y) => y % 2, (x) => x % 3,
    (x, y) => (x + y) % 3, (x, y) => (Math.floor(x / 3) + (y >> 1)) % 2,
    (x, y) => x * y % 2 + x * y % 3, (x, y) => (x * y % 2 + x * y % 3) % 2,
    (x, y) => ((x + y) % 2 + x * y % 3) % 2];

  // -- codewords ------------------------------------------------------------

  // The field of 256 elements: powers of 2, and their exponents.
  const POWERS = [];
  const EXPONENTS = [];
  for (let i = 0, n = 1; i < 255; i += 1) {
    POWERS[i] = n;
    EXPONENTS[n] = i;
    n = n < 128 ? n * 2 : n * 2 ^ 0x11d;
  }
  const times = (a, b) =>
    (a && b ? POWERS[(EXPONENTS[a] + EXPONENTS[b]) % 255] : 0);

  // Reed-Solomon: the remainder of the data, times x^n, by the polynomial with the
  // first n powers as its roots.
  function corrections(data, n) {
    let divisor = [1];
    for (let i = 0; i < n; i += 1) {
      divisor = [...divisor, 0].map((c, j) =>
        c ^ times(divisor[j - 1], POWERS[i]));
    }
    const rest = [...data, ...Array(n).fill(0)];
    for (let i = 0; i < data.length; i += 1) {
      const first = rest[i];
      divisor.forEach((c, j) => { rest[i + j] ^= times(c, first); });
    }
    return rest.slice(data.length);
  }

  // The header, the bytes, and what fills the room that is left.
  function dataWords(bytes, version, room) {
    const bits = [];
    const push = (value, n) => {
      for (let i = n - 1; i >= 0; i -= 1) {
        bits.push(value >> i & 1);
      }
    };
    push(4, 4); // bytes
    push(bytes.length, version < 10 ? 8 : 16);
    bytes.forEach((b) => push(b, 8));
    push(0, Math.min(4, room * 8 - bits.length));
    push(0, (8 - bits.length % 8) % 8);
    for (let fill = 0xec; bits.length < room * 8; fill ^= 0xec ^ 0x11) {
      push(fill, 8);
    }
    return Array.from({ length: room }, (_, i) =>
      bits.slice(i * 8, i * 8 + 8).reduce((n, bit) => n * 2 + bit, 0));
  }

  // Blocks, interleaved; the last ones have a codeword more.
  function interleaved(data, [words, checks, count]) {
    const short = Math.floor(words / count) - checks;
    const long = words % count;
    const blocks = [];
    for (let i = 0, at = 0; i < count; i += 1) {
      const size = short + (i < count - long ? 0 : 1);
      blocks.push(data.slice(at, at + size));
      at += size;
    }
    const columns = (rows) => Array.from({ length: rows[count - 1].length },
      (_, i) => rows.map((row) => row[i])).flat().filter((n) => n !== undefined);
    return [...columns(blocks),
      ...columns(blocks.map((block) => corrections(block, checks)))];
  }

  // -- modules: rows of 0 and 1, or undefined -----------------------------------

  // Appends the remainder of a code of Bose, Chaudhuri and Hocquenghem.
  function checked(value, n, divisor) {
    let rest = value;
    for (let i = 0; i < n; i += 1) {
      rest = rest << 1 ^ (rest >> n - 1) * divisor;
    }
    return value << n | rest;
  }

  function rings(rows, x0, y0, radius, light) {
    for (let y = -radius; y <= radius; y += 1) {
      for (let x = -radius; x <= radius; x += 1) {
        if (rows[y0 + y] && x0 + x >= 0 && x0 + x < rows.length) {
          rows[y0 + y][x0 + x] = Number(!light.includes(
            Math.max(Math.abs(x), Math.abs(y))));
        }
      }
    }
  }

  // Level and mask, twice.
  function writeFormat(rows, mask) {
    const format = checked(1 << 3 | mask, 10, 0x537) ^ 0x5412;
    const size = rows.length;
    for (let i = 0; i < 15; i += 1) {
      const bit = format >> i & 1;
      if (i < 8) {
        rows[i < 6 ? i : i + 1][8] = bit;
        rows[8][size - 1 - i] = bit;
      } else {
        rows[8][i === 8 ? 7 : 14 - i] = bit;
        rows[size - 15 + i][8] = bit;
      }
    }
    rows[size - 8][8] = 1;
  }

  function writeVersion(rows, version) {
    const bits = checked(version, 12, 0x1f25);
    for (let i = 0; i < 18; i += 1) {
      const [a, b] = [Math.floor(i / 3), rows.length - 11 + i % 3];
      rows[a][b] = rows[b][a] = bits >> i & 1;
    }
  }

  // All that is not of the data.
  function frame(version, centres) {
    const size = 17 + 4 * version;
    const rows = Array.from({ length: size }, () => Array(size).fill());
    for (const [x, y] of [[3, 3], [size - 4, 3], [3, size - 4]]) {
      rings(rows, x, y, 4, [2, 4]);
    }
    for (const y of [6, ...centres]) {
      for (const x of [6, ...centres]) {
        if (rows[y][x] === undefined) {
          rings(rows, x, y, 2, [1]);
        }
      }
    }
    for (let i = 8; i < size - 8; i += 1) {
      rows[6][i] = rows[i][6] = 1 - i % 2;
    }
    writeFormat(rows, 0);
    if (version >= 7) {
      writeVersion(rows, version);
    }
    return rows;
  }

  // In pairs of columns from the right, up and down by turns, around the frame.
  function fill(rows, words, mask) {
    const size = rows.length;
    const filled = rows.map((row) => [...row]);
    let at = 0;
    let up = true;
    for (let right = size - 1; right > 0; right -= right === 8 ? 3 : 2) {
      for (let i = 0; i < size * 2; i += 1) {
        const y = up ? size - 1 - (i >> 1) : i >> 1;
        const x = right - i % 2;
        if (rows[y][x] === undefined) {
          const bit = words[at >> 3] >> 7 - at % 8 & 1;
          filled[y][x] = bit ^ Number(!MASKS[mask](x, y));
          at += 1;
        }
      }
      up = !up;
    }
    writeFormat(filled, mask);
    return filled;
  }

  // How hard it is to read.
  function penalty(rows) {
    const size = rows.length;
    const lines = [...rows, ...rows.map((_, x) => rows.map((row) => row[x]))]
      .map((line) => line.join(''));
    let sum = 0;
    for (const line of lines) {
      for (const [run] of line.matchAll(/0{5,}|1{5,}/g)) {
        sum += run.length - 2;
      }
      sum += 40 * [...line.matchAll(/(?=10111010000|00001011101)/g)].length;
    }
    for (let y = 1; y < size; y += 1) {
      for (let x = 1; x < size; x += 1) {
        const n = rows[y][x] + rows[y][x - 1] + rows[y - 1][x]
          + rows[y - 1][x - 1];
        sum += n % 4 ? 0 : 3;
      }
    }
    const dark = rows.flat().reduce((n, bit) => n + bit) / size / size;
    return sum + 10 * Math.floor(Math.abs(dark - 0.5) * 20);
  }

  // Returns the rows of 0 (light) and 1 (dark), without a margin, or null if the
  // text is too long.
  function rows(text) {
    const bytes = [...new TextEncoder().encode(text)];
    const at = VERSIONS.findIndex(([words, checks, count], i) =>
      bytes.length + (i < 9 ? 2 : 3) <= words - checks * count);
    if (at < 0) {
      return null;
    }
    const [words, checks, count, centres] = VERSIONS[at];
    const all = interleaved(dataWords(bytes, at + 1, words - checks * count),
      VERSIONS[at]);
    const base = frame(at + 1, centres);
    return MASKS.map((_, mask) => fill(base, all, mask))
      .map((made) => [penalty(made), made])
      .reduce((best, made) => (made[0] < best[0] ? made : best))[1];
  }

  // Returns a picture of the code with its margin, or null.
  function picture(text, label) {
    const made = rows(text);
    if (!made) {
      return null;
    }
    const make = (name, attributes) => {
      const e = document.createElementNS('http://www.w3.org/2000/svg', name);
      for (const [key, value] of Object.entries(attributes)) {
        e.setAttribute(key, value);
      }
      return e;
    };
    const size = made.length + 8;
    const svg = make('svg', { class: 'qr', viewBox: `-4 -4 ${size} ${size}`,
      role: 'img', 'aria-label': label });
    svg.append(make('path', { d: made.map((row, y) => row.map((bit, x) =>
      (bit ? `M${x} ${y}h1v1h-1z` : '')).join('')).join('') }));
    return svg;
  }

  return { rows, picture };
})();
