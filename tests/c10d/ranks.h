// Ranks of a c10d group as threads of the test, which share a store in memory.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "ripieno/c10d/backend.h"

namespace ripieno::c10d {

inline c10::intrusive_ptr<Backend::Options> within(std::chrono::milliseconds timeout) {
  return c10::make_intrusive<Backend::Options>(timeout);
}

/// Runs `body` on each rank of a group; an exception fails the test.
inline void on_ranks(int size, const std::function<void(Backend&)>& body) {
  const auto store = c10::make_intrusive<::c10d::HashStore>();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&, rank] {
      try {
        Backend group(store, rank, size, within(std::chrono::seconds(60)));
        body(group);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

/// Waits until other ranks have done something that the test must not overtake.
inline void await(const std::atomic<int>& done, int wanted = 1) {
  while (done < wanted) std::this_thread::yield();
}

/// The first line of the error that `act` throws; "" and a failure if there is none.
inline std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const std::exception& error) {
    const std::string all = error.what();
    return all.substr(0, all.find('\n'));
  }
  ADD_FAILURE() << "there was no error";
  return "";
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

inline at::Tensor all_reduced(Backend& group, at::Tensor tensor, ::c10d::ReduceOp op = ::c10d::ReduceOp::SUM) {
  std::vector<at::Tensor> tensors{tensor};
  ::c10d::AllreduceOptions options;
  options.reduceOp = op;
  group.allreduce(tensors, options)->wait();
  return tensor;
}

using Handle = c10::intrusive_ptr<::c10d::Work>;
using Tensors = std::vector<at::Tensor>;

inline Handle begin_sum(Backend& group, const at::Tensor& tensor) {
  Tensors tensors{tensor};
  return group.allreduce(tensors, {});
}
inline void send(Backend& group, const at::Tensor& tensor, int peer, int tag) {
  Tensors tensors{tensor};
  group.send(tensors, peer, tag)->wait();
}
inline Handle begin_receive(Backend& group, const at::Tensor& tensor, int peer, int tag) {
  Tensors tensors{tensor};
  return peer < 0 ? group.recvAnysource(tensors, tag) : group.recv(tensors, peer, tag);
}
inline double received(Backend& group, int peer, int tag) {
  const at::Tensor tensor = at::zeros({1}, at::kDouble);
  begin_receive(group, tensor, peer, tag)->wait();
  return tensor.item<double>();
}
inline at::Tensor number(double value) { return at::full({1}, value, at::kDouble); }

}  // namespace ripieno::c10d
