#include "ripieno/codec/codec.h"

#include <array>

#include "ripieno/codec/int8.h"
#include "ripieno/codec/qsgd.h"
#include "ripieno/codec/sign.h"
#include "ripieno/codec/topk.h"
#include "ripieno/codec/wire.h"
#include "ripieno/codec/wire_codec.h"
#include "ripieno/core/edit_distance.h"

namespace ripieno::codec {
namespace {

using Options = CodecOptions;
using Made = std::unique_ptr<Codec>;

struct Entry {
  CodecInfo info;
  Made (*make)(const Options& options, DType native);
};

Made wire(const Options& options, DType native) { return make_wire(find_wire_format(options.name).type(native)); }
Made int8(const Options& options, DType) { return make_int8(options.block); }
Made qsgd(const Options& options, DType) { return make_qsgd(options.block, options.bits, options.error_feedback); }
Made sign(const Options& options, DType) { return make_sign(options.block); }
Made topk(const Options& options, DType) { return make_topk(options.fraction); }
Made topk_sampled(const Options& options, DType) { return make_topk_sampled(options.fraction); }
Made powersgd(const Options&, DType) {
  fail(ErrorKind::internal, "powersgd averages factors of its own and has no codec: take it by collective/powersgd.h");
}

constexpr CodecKind as_wire = CodecKind::wire, as_block = CodecKind::block, as_gathered = CodecKind::gathered;

constexpr std::array built_in{
    Entry{{"auto", "as the numbers are in memory: exact", as_wire, true, "4 n (fp64 in memory: 8 n)", ""}, wire},
    Entry{{"fp32", "IEEE 754 single precision", as_wire, true, "4 n", "IEEE 754"}, wire},
    Entry{{"fp16", "IEEE 754 half precision: 11 bits of precision, up to 65504", as_wire, false, "2 n", "IEEE 754"},
          wire},
    Entry{{"bf16", "bfloat16: 8 bits of precision, fp32's range", as_wire, false, "2 n", "Kalamkar et al. 2019"}, wire},
    Entry{{"int8", "8 bits per number, a scale for each block", as_block, false, "n + 4 ceil(n / block)",
           "Dettmers 2016"},
          int8},
    Entry{{"qsgd", "a sign and a level for each number, rounded at random, the largest of each block", as_block, false,
           "ceil(n bits / 8) + 4 ceil(n / block)", "Alistarh et al. 2017"},
          qsgd},
    Entry{{"sign", "one bit per number, the mean magnitude of each block", as_block, false,
           "ceil(n / 8) + 4 ceil(n / block)", "Karimireddy et al. 2019", true},
          sign},
    Entry{{"topk", "the largest numbers, each with its index", as_gathered, false, "8 k, k = max(1, ceil(fraction n))",
           "Aji and Heafield 2017", true},
          topk},
    Entry{{"topk-sampled", "the numbers above a threshold taken from a sample, each with its index", as_gathered, false,
           "between 8 and about 16 k: 8 times the numbers sent", "Lin et al. 2018", true},
          topk_sampled},
    Entry{{"powersgd", "two factors of low rank for each matrix", CodecKind::low_rank, false,
           "4 r (m + n) a matrix of m x n; 4 n of other numbers", "Vogels et al. 2019"},
          powersgd},
};

constexpr auto infos = [] {
  std::array<CodecInfo, built_in.size()> all{};
  for (std::size_t i = 0; i < built_in.size(); ++i) all[i] = built_in[i].info;
  return all;
}();

template <class T>
void check_option(const char* name, T value, bool in_range, const char* range) {
  if (!in_range) fail(ErrorKind::usage, "a codec's ", name, " is ", value, "; it must be ", range);
}

}  // namespace

std::span<const CodecInfo> codecs() { return infos; }

const CodecInfo& find_codec(std::string_view name) { return find_named(infos, name, "codec"); }

std::unique_ptr<Codec> make_codec(const CodecOptions& options, DType native) {
  check_codec(options);
  return built_in[static_cast<std::size_t>(&find_codec(options.name) - infos.data())].make(options, native);
}

void check_codec(const CodecOptions& options) {
  find_codec(options.name);
  check_option("block", options.block, options.block >= 8 && options.block <= 1 << 20 && options.block % 8 == 0,
               "8 .. 1048576 and a multiple of 8");
  check_option("bits", options.bits, options.bits >= 2 && options.bits <= 8, "2 .. 8");
  check_option("fraction", options.fraction, options.fraction > 0 && options.fraction <= 1, "above 0 and at most 1");
  check_option("rank", options.rank, options.rank >= 1 && options.rank <= 64, "1 .. 64");
}

}  // namespace ripieno::codec
