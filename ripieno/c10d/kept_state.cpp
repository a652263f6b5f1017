#include "ripieno/c10d/kept_state.h"

#include <cstring>

#include "ripieno/numeric/elementwise.h"

namespace ripieno::c10d {
namespace {

/// "averager.slot0.residual": "residual".
std::string short_name(std::string_view name) { return std::string(name.substr(name.rfind('.') + 1)); }

at::ScalarType scalar_type_of(DType type) { return type == DType::fp64 ? at::kDouble : at::kFloat; }

class Saves final : public StateVisitor {
 public:
  void span(std::string_view name, NumberSpan values) override {
    const at::Tensor copy = at::empty({static_cast<std::int64_t>(values.count)}, scalar_type_of(values.type));
    if (values.count > 0) std::memcpy(copy.data_ptr(), values.data, values.size_bytes());
    state.tensors[short_name(name)] = copy;
  }
  void number(std::string_view name, std::int64_t& value) override { state.numbers[short_name(name)] = value; }

  KeptState state;
};

class Restores final : public StateVisitor {
 public:
  explicit Restores(const KeptState& state) : state_(state) {}

  void span(std::string_view name, NumberSpan values) override {
    const auto found = state_.tensors.find(short_name(name));
    if (found == state_.tensors.end()) missing(name);
    const at::Tensor from = found->second.contiguous().cpu();
    const auto count = static_cast<std::size_t>(from.numel());
    if (count != values.count || from.scalar_type() != scalar_type_of(values.type)) {
      fail(ErrorKind::usage, "a hook's saved ", short_name(name), " has ", count, " numbers of ", from.scalar_type(),
           ", and the hook keeps ", values.count, " of ", scalar_type_of(values.type),
           ": load what a hook with the same options has saved");
    }
    if (count > 0) std::memcpy(values.data, from.const_data_ptr(), values.size_bytes());
  }
  void number(std::string_view name, std::int64_t& value) override {
    const auto found = state_.numbers.find(short_name(name));
    if (found == state_.numbers.end()) missing(name);
    value = found->second;
  }

 private:
  [[noreturn]] static void missing(std::string_view name) {
    fail(ErrorKind::usage, "a hook's saved state has no ", short_name(name),
         ": load what a hook with the same options has saved");
  }

  const KeptState& state_;
};

class Codes final : public StateVisitor {
 public:
  void span(std::string_view, NumberSpan values) override { code = code * 31 + numeric::hash(values); }
  void number(std::string_view, std::int64_t& value) override { code = code * 31 + static_cast<std::uint64_t>(value); }

  std::uint64_t code = 0;
};

}  // namespace

KeptState kept_by(collective::Averager& averager) {
  Saves saves;
  averager.visit(saves);
  return std::move(saves.state);
}

void restore(collective::Averager& averager, const KeptState& state) {
  Restores restores(state);
  averager.visit(restores);
}

std::uint64_t shared_code(collective::Averager& averager) {
  Codes codes;
  averager.visit_shared(codes);
  return codes.code;
}

}  // namespace ripieno::c10d
