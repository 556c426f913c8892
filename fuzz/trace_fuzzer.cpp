// Any bytes as a .gmp file: they must be rejected or read, never crash or exhaust memory.
//
// The first byte selects what the rest is: a whole file, or the content of blocks that get valid
// headers, since checksums would keep a fuzzer out of the decoders. In the second case each block
// is: kind, two bytes of length, content.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "store/store.h"
#include "trace/block.h"
#include "trace/reader.h"

namespace {

using gpumemprof::trace::BlockKind;

void open_file(std::span<const std::uint8_t> bytes) {
  auto reader = gpumemprof::TraceReader::from_bytes(std::as_bytes(bytes), "fuzz.gmp");
  if (!reader) return;
  gpumemprof::Store store;
  (void)reader.value()->deliver(store);
}

void open_contents(std::span<const std::uint8_t> bytes) {
  gpumemprof::trace::OutBytes file;
  gpumemprof::trace::append_file_header(file);
  gpumemprof::trace::BlockPacker packer(0);
  gpumemprof::trace::InBytes in(bytes);
  while (in.left() >= 3) {
    const auto kind = static_cast<BlockKind>(in.byte());
    const auto length = in.fixed<std::uint16_t>();
    packer.pack(kind, in.bytes(std::min<std::size_t>(length, in.left())), file);
  }
  open_file(file.span());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::span<const std::uint8_t> rest(data + 1, size - 1);
  if (data[0] % 2 == 0) {
    open_file(rest);
  } else {
    open_contents(rest);
  }
  return 0;
}
