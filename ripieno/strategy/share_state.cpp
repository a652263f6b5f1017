#include "ripieno/strategy/share_state.h"

#include <memory>
#include <vector>

#include "ripieno/collective/execute.h"
#include "ripieno/numeric/elementwise.h"
#include "ripieno/numeric/numbers.h"

namespace ripieno::strategy {
namespace {

/// Collects the state's spans and numbers.
class Places final : public StateVisitor {
 public:
  void span(std::string_view, NumberSpan values) override {
    if (values.count > 0) spans.push_back(values);
  }
  void number(std::string_view, std::int64_t& value) override { numbers.push_back(value); }

  std::vector<NumberSpan> spans;
  std::vector<std::int64_t> numbers;
};

/// Overwrites the state's numbers by others.
class Numbered final : public StateVisitor {
 public:
  explicit Numbered(const std::vector<std::int64_t>& numbers) : next_(numbers.begin()) {}
  void span(std::string_view, NumberSpan) override {}
  void number(std::string_view, std::int64_t& value) override { value = *next_++; }

 private:
  std::vector<std::int64_t>::const_iterator next_;
};

}  // namespace

Task<> share_state(collective::Communicator comm, int root, std::function<void(StateVisitor&)> walk) {
  Places places;
  walk(places);
  collective::ExecuteOptions options;
  options.purpose = observe::Purpose::control;
  options.root = root;
  std::vector<std::unique_ptr<numeric::Numbers>> staged;
  for (const NumberSpan span : places.spans) {
    options.wire = span.type;
    staged.push_back(numeric::copy_of(span));
    const NumberSpan copy = staged.back()->span();
    co_await collective::broadcast(comm, copy, options);
  }
  const std::size_t count = places.numbers.size();
  std::vector<std::int64_t> numbers;
  if (count > 0) numbers = co_await comm.broadcast(std::move(places.numbers), root);
  require(numbers.size() == count, "a rank's state has ", count, " numbers where the root's has ", numbers.size());
  for (std::size_t i = 0; i < staged.size(); ++i) numeric::convert(places.spans[i], staged[i]->span());
  Numbered numbered(numbers);
  walk(numbered);
}

}  // namespace ripieno::strategy
