// For the tests of MPI's own collectives.
#pragma once

#include "tests/transport/abort_kit.h"

namespace ripieno::testing {

inline Task<> reduce(transport::Endpoint* e, std::vector<float>* numbers, std::uint32_t channel = 0,
                     transport::EngineTerms terms = {}) {
  return e->run_engine(transport::Collective::all_reduce, message(numbers->size(), channel, "native"),
                       NumberSpan(*numbers), terms);
}

inline void run_what_is_left(Runtime* runtime) {
  try {
    runtime->run();
  } catch (const Error&) {  // of something that a rank has left behind
  }
}

/// As run_ranks(), over an MPI that the test holds; each endpoint ends with its body.
inline std::vector<std::string> errors_over(const std::shared_ptr<OwnMpiWorld>& world, const std::vector<Body>& bodies,
                                            transport::LinkOptions options = {}) {
  std::vector<std::string> errors(bodies.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < bodies.size(); ++rank) {
    threads.emplace_back([&, rank] {
      const auto runtime = real_runtime(static_cast<int>(rank));
      auto endpoint =
          transport::mpi_endpoint(*runtime, std::make_shared<OwnMpi>(world, static_cast<int>(rank)), options);
      try {
        runtime->spawn("rank", bodies[rank](endpoint.get()));
        runtime->run();
      } catch (const Error& caught) {
        errors[rank] = caught.what();
      }
      endpoint.reset();
      if (!errors[rank].empty()) run_what_is_left(runtime.get());
    });
  }
  for (auto& thread : threads) thread.join();
  return errors;
}

}  // namespace ripieno::testing
