// What a rank says of views.
#include "ripieno/membership/view_notes.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ripieno;
  const auto message = membership::message_in(fuzz::as_text(data, size));
  if (!message) return 0;
  require(membership::message_in(membership::note_of(*message)) == message, "a note that does not come back");
  membership::ViewState state = membership::first_view(0, {0, 1, 2, 3}, true);
  for (const int from : {1, 3, membership::witness_seat})
    membership::step(state, {membership::ViewInput::What::said, from, *message});
  return 0;
}
