// The collectives of a c10d group: every operation, on tensors of every type and layout, against what LibTorch computes
// from all ranks' tensors.
#include <ATen/ATen.h>

#include "ranks.h"

namespace ripieno::c10d {
namespace {

using ::c10d::ReduceOp;

/// What a rank brings: small whole numbers, which every type holds exactly.
at::Tensor of_rank(int rank, at::ScalarType type, std::int64_t elements = 37) {
  const at::Tensor numbers = (at::arange(elements) * (rank + 3) + rank) % 5 + 1;
  return type == at::kBool ? (numbers % 2 == 0) : numbers.to(type);
}

at::Tensor reduced(int size, at::ScalarType type, ReduceOp::RedOpType op) {
  at::Tensor result = of_rank(0, type);
  for (int rank = 1; rank < size; ++rank) {
    const at::Tensor next = of_rank(rank, type);
    switch (op) {
      case ReduceOp::PRODUCT:
        result = result.mul(next);
        break;
      case ReduceOp::MIN:
        result = at::minimum(result, next);
        break;
      case ReduceOp::MAX:
        result = at::maximum(result, next);
        break;
      case ReduceOp::BAND:
        result = result.bitwise_and(next);
        break;
      case ReduceOp::BOR:
        result = result.bitwise_or(next);
        break;
      case ReduceOp::BXOR:
        result = result.bitwise_xor(next);
        break;
      default:
        result = result.add(next);
    }
  }
  return op == ReduceOp::AVG ? result.div(size).to(type) : result;
}

TEST(Collectives, AMeanThatFitsDoesNotOverflow) {
  on_ranks(3, [](Backend& group) {
    for (const auto& [type, number] : {std::pair(at::kHalf, 40000), {at::kByte, 200}, {at::kInt, 2'000'000'000}}) {
      std::vector<at::Tensor> mine{at::full({5}, number, type)};
      group.allreduce(mine, {.reduceOp = ReduceOp::AVG})->wait();
      EXPECT_TRUE(mine[0].eq(number).all().item<bool>()) << type << " " << mine[0];
    }
  });
}

class ReductionsOfTypes : public testing::TestWithParam<at::ScalarType> {};

TEST_P(ReductionsOfTypes, AreThoseOfLibTorch) {
  const at::ScalarType type = GetParam();
  const bool is_float = at::isFloatingType(type), is_complex = at::isComplexType(type), is_bool = type == at::kBool;
  std::vector<ReduceOp::RedOpType> ops{ReduceOp::SUM, ReduceOp::PRODUCT};
  if (!is_complex) ops.insert(ops.end(), {ReduceOp::MIN, ReduceOp::MAX});
  if (!is_complex && !is_float) ops.insert(ops.end(), {ReduceOp::BAND, ReduceOp::BOR, ReduceOp::BXOR});
  if (!is_complex && !is_bool) ops.push_back(ReduceOp::AVG);
  for (const int size : {1, 2, 3}) {
    on_ranks(size, [&](Backend& group) {
      for (const ReduceOp::RedOpType op : ops) {
        if (is_bool && op == ReduceOp::SUM && size == 1) continue;
        const at::Tensor expected = reduced(size, type, op), mine = of_rank(group.getRank(), type);
        const auto same = [&](const at::Tensor& result) {
          return at::allclose(result.to(at::kComplexDouble), expected.to(at::kComplexDouble), 1e-6);
        };
        EXPECT_TRUE(same(all_reduced(group, mine.clone(), op)))
            << "all_reduce, op " << int(op) << ", " << size << " ranks";

        Tensors at_root{mine.clone()};
        ::c10d::ReduceOptions to_root;
        to_root.reduceOp = op;
        to_root.rootRank = size - 1;
        group.reduce(at_root, to_root)->wait();
        EXPECT_TRUE(group.getRank() == size - 1 ? same(at_root[0]) : at_root[0].equal(mine))
            << "reduce, op " << int(op);

        at::Tensor whole = mine.repeat({size}), part = at::empty_like(mine);
        ::c10d::ReduceScatterOptions scattered;
        scattered.reduceOp = op;
        group._reduce_scatter_base(part, whole, scattered)->wait();
        EXPECT_TRUE(same(part)) << "reduce_scatter, op " << int(op);
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(C10d, ReductionsOfTypes,
                         testing::Values(at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kInt,
                                         at::kByte, at::kChar, at::kShort, at::kBool, at::kComplexFloat),
                         [](const auto& type) { return std::string(at::toString(type.param)); });

TEST(Collectives, MoveTensorsOfEveryTypeWhereTheyBelong) {
  for (const int size : {1, 2, 3, 5}) {
    on_ranks(size, [&](Backend& group) {
      const int rank = group.getRank();
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kBool, at::kChar, at::kComplexDouble}) {
        for (const std::int64_t elements : {0, 1, 37, 20000}) {
          const at::Tensor mine = of_rank(rank, type, elements);
          Tensors from_all;
          for (int i = 0; i < size; ++i) from_all.push_back(of_rank(i, type, elements));
          const auto nothing = [&] { return at::zeros_like(mine); };

          Tensors sent{rank == size - 1 ? mine.clone() : nothing()};
          ::c10d::BroadcastOptions from_last;
          from_last.rootRank = size - 1;
          group.broadcast(sent, from_last)->wait();
          EXPECT_TRUE(sent[0].equal(from_all.back())) << "broadcast";

          std::vector<Tensors> gathered(1);
          for (int i = 0; i < size; ++i) gathered[0].push_back(nothing());
          Tensors input{mine};
          group.allgather(gathered, input, {})->wait();
          for (std::size_t i = 0; i < from_all.size(); ++i) {
            EXPECT_TRUE(gathered[0][i].equal(from_all[i])) << "all_gather";
          }

          at::Tensor flat = at::zeros({elements * size}, mine.options()), same = mine;
          group._allgather_base(flat, same, {})->wait();
          EXPECT_TRUE(flat.equal(at::cat(from_all))) << "all_gather_into_tensor";

          for (at::Tensor& one : gathered[0]) one = nothing();
          std::vector<Tensors> at_root;
          if (rank == 0) at_root = gathered;
          group.gather(at_root, input, {})->wait();
          for (std::size_t i = 0; rank == 0 && i < from_all.size(); ++i) {
            EXPECT_TRUE(at_root[0][i].equal(from_all[i])) << "gather";
          }

          std::vector<Tensors> dealt;
          if (rank == 0) dealt.push_back(from_all);
          Tensors output{nothing()};
          group.scatter(output, dealt, {})->wait();
          EXPECT_TRUE(output[0].equal(mine)) << "scatter";

          Tensors outgoing, incoming;
          for (int i = 0; i < size; ++i) {
            outgoing.push_back(mine + mine);
            incoming.push_back(nothing());
          }
          group.alltoall(incoming, outgoing, {})->wait();
          for (std::size_t i = 0; i < from_all.size(); ++i) {
            EXPECT_TRUE(incoming[i].equal(from_all[i] + from_all[i])) << "all_to_all";
          }
        }
      }
    });
  }
}

TEST(Collectives, AnAllToAllMayBeUneven) {
  on_ranks(3, [](Backend& group) {
    // Rank r sends r + i rows of two numbers r, i to rank i.
    const int rank = group.getRank();
    std::vector<std::int64_t> out_rows, in_rows;
    Tensors rows, expected;
    for (int i = 0; i < 3; ++i) {
      out_rows.push_back(rank + i);
      in_rows.push_back(i + rank);
      rows.push_back(at::tensor({rank, i}).expand({rank + i, 2}));
      expected.push_back(at::tensor({i, rank}).expand({i + rank, 2}));
    }
    at::Tensor input = at::cat(rows), output = at::zeros_like(at::cat(expected));
    group.alltoall_base(output, input, in_rows, out_rows, {})->wait();
    EXPECT_TRUE(output.equal(at::cat(expected)));
    in_rows[0] += 1;
    const std::string error = error_of([&] { group.alltoall_base(output, input, in_rows, out_rows, {}); });
    EXPECT_TRUE(contains(error, "dim 0")) << error;
  });
}

TEST(Collectives, TensorsMayBeLaidOutInAnyWay) {
  on_ranks(2, [](Backend& group) {
    const double other = 1 - group.getRank();
    const at::Tensor whole = at::zeros({4, 6}, at::kDouble);
    at::Tensor columns = whole.slice(1, 1, 5, 2);
    columns.fill_(group.getRank() + 1);
    all_reduced(group, columns);
    EXPECT_TRUE(columns.eq(3).all().item<bool>());
    EXPECT_EQ(whole.sum().item<double>(), 3 * columns.numel()) << "what lies between them is as it was";
    // One rank's memory is in another order than the other's.
    at::Tensor image = at::arange(24., at::kDouble).reshape({1, 2, 3, 4});
    if (group.getRank() == 0) image = image.contiguous(at::MemoryFormat::ChannelsLast);
    EXPECT_TRUE(all_reduced(group, image).equal(2 * at::arange(24., at::kDouble).reshape({1, 2, 3, 4})));
    at::Tensor conjugate = at::full({3}, c10::complex<double>(1, group.getRank() + 1)).conj();
    all_reduced(group, conjugate);
    EXPECT_TRUE(conjugate.resolve_conj().eq(c10::complex<double>(2, -3)).all().item<bool>());
    at::Tensor leaf = at::full({3}, other, at::kDouble).requires_grad_();
    EXPECT_EQ(all_reduced(group, leaf).sum().item<double>(), 3);
  });
}

TEST(Collectives, SparseTensorsAreSummed) {
  on_ranks(3, [](Backend& group) {
    const int rank = group.getRank();
    at::Tensor tensor =
        at::sparse_coo_tensor(at::arange(rank + 1).reshape({1, rank + 1}), at::ones({rank + 1, 2}), {4, 2});
    all_reduced(group, tensor);
    EXPECT_TRUE(tensor.to_dense().equal(at::tensor({3., 2., 1., 0.}, at::kFloat).reshape({4, 1}).expand({4, 2})));
  });
}

TEST(Collectives, SeveralTensorsGoTogether) {
  on_ranks(2, [](Backend& group) {
    for (const std::int64_t elements : {3, 300'000}) {
      Tensors tensors{at::ones({elements}), at::full({2, 2}, group.getRank() + 1.F)};
      if (elements == 3) tensors.push_back(at::full({2}, 7, at::kLong));
      group.allreduce_coalesced(tensors, {})->wait();
      EXPECT_TRUE(tensors[0].eq(2).all().item<bool>());
      EXPECT_TRUE(tensors[1].eq(3).all().item<bool>());
      if (elements == 3) {
        EXPECT_TRUE(tensors[2].eq(14).all().item<bool>());
      }
    }
    Tensors inputs{at::full({2}, group.getRank()), at::full({3}, 10 + group.getRank())};
    Tensors outputs{at::zeros({4}, at::kLong), at::zeros({6}, at::kLong)};
    group.allgather_into_tensor_coalesced(outputs, inputs, {})->wait();
    EXPECT_TRUE(outputs[0].equal(at::tensor({0, 0, 1, 1})));
    EXPECT_TRUE(outputs[1].equal(at::tensor({10, 10, 10, 11, 11, 11})));
    Tensors sums{at::zeros({2}, at::kLong), at::zeros({3}, at::kLong)};
    group.reduce_scatter_tensor_coalesced(sums, outputs, {})->wait();
    EXPECT_TRUE(sums[1].eq(20 + 2 * group.getRank()).all().item<bool>());
  });
}

TEST(Collectives, PartsOfAReducedListMayDifferInSize) {
  on_ranks(3, [](Backend& group) {
    for (const bool unequal : {false, true}) {
      std::vector<Tensors> inputs(1);
      for (int rank = 0; rank < 3; ++rank)
        inputs[0].push_back(at::full({unequal ? rank + 1 : 2}, rank + 10, at::kLong));
      Tensors outputs{at::zeros_like(inputs[0][static_cast<std::size_t>(group.getRank())])};
      group.reduce_scatter(outputs, inputs)->wait();
      EXPECT_TRUE(outputs[0].eq(3 * (group.getRank() + 10)).all().item<bool>()) << unequal;
    }
  });
}

TEST(Collectives, ASumMayBePremultiplied) {
  on_ranks(2, [](Backend& group) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
      EXPECT_TRUE(all_reduced(group, at::ones({5}, type), ::c10d::makePreMulSum(0.5)).eq(1).all().item<bool>()) << type;
  });
}

TEST(Collectives, WrongArgumentsAreRefusedAndEndNothing) {
  on_ranks(2, [](Backend& group) {
    const auto refuses = [](const std::string& part, const std::function<void()>& act) {
      const std::string error = error_of(act);
      EXPECT_TRUE(contains(error, part)) << error;
    };
    Tensors two{at::zeros({1}), at::zeros({1})}, one{at::zeros({4})};
    refuses("all_reduce with 2 tensors", [&] { group.allreduce(two, {}); });
    ::c10d::BroadcastOptions from_nobody;
    from_nobody.rootRank = 2;
    refuses("root rank 2: the group has ranks 0 to 1", [&] { group.broadcast(one, from_nobody); });
    std::vector<Tensors> lists{{at::zeros({4})}};
    refuses("a list of 1 tensors: the group has 2 ranks", [&] { group.allgather(lists, one, {}); });
    lists = {{at::zeros({4}), at::zeros({3})}};
    refuses("they must be alike", [&] { group.allgather(lists, one, {}); });
    at::Tensor wide = at::zeros({8}, at::kLong);
    refuses("they must be of one type", [&] { group._allgather_base(wide, one[0], {}); });
    refuses("none sends to itself", [&] { group.send(one, group.getRank(), 0); });
    refuses("no such operation for the type", [&] { group.allreduce(one, {.reduceOp = ReduceOp::BAND}); });
    for (const at::ScalarType type : {at::kUInt16, at::kFloat8_e4m3fn}) {
      Tensors odd{at::zeros({4}).to(type)};
      refuses("there is no arithmetic for the type", [&] { group.allreduce(odd, {}); });
    }
    refuses("layout Sparse", [&] {
      Tensors sparse{at::zeros({2}).to_sparse()};
      group.broadcast(sparse, {});
    });
    refuses("tags begin at 0", [&] { group.send(one, 1 - group.getRank(), -1); });
    EXPECT_TRUE(all_reduced(group, at::ones({2})).eq(2).all().item<bool>());
    EXPECT_EQ(group.getError(), ::c10d::ErrorType::SUCCESS);
  });
}

TEST(Collectives, RanksWhoseTensorsDifferInSizeAreTold) {
  // Also where their pieces have one size, and where one has no elements.
  const std::vector<std::pair<std::int64_t, std::int64_t>> sizes{{1 << 20, 2 << 20}, {2 << 20, 1 << 20}, {0, 5}, {5, 0},
                                                                 {131'072, 262'144}, {8 << 20, 16 << 20}};
  for (const auto& [first, second] : sizes) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      for (const bool reduces : {true, false}) {
        SCOPED_TRACE(text(reduces ? "all_reduce" : "broadcast", " of ", first, " and ", second, " ", type));
        std::atomic<int> told{0};
        on_ranks(2, [&](Backend& group) {
          Tensors tensors{at::ones({group.getRank() == 0 ? first : second}, type)};
          try {
            (reduces ? group.allreduce(tensors, {}) : group.broadcast(tensors, {}))->wait();
            group.barrier({})->wait();  // what the root of a broadcast hears of
          } catch (const std::exception&) {
            ++told;
          }
        });
        EXPECT_EQ(told, 2);
      }
    }
  }
}

TEST(Collectives, OfNoElementsMeet) {
  on_ranks(3, [](Backend& group) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kBool}) {
      Tensors empty{at::empty({0, 3}, type)};
      group.broadcast(empty, {})->wait();
      if (type != at::kBool) group.allreduce(empty, {})->wait();
    }
    EXPECT_TRUE(all_reduced(group, at::ones({5})).eq(3).all().item<bool>());
  });
}

TEST(Collectives, TensorsWhoseElementsShareMemoryAreReadButNotWritten) {
  on_ranks(2, [](Backend& group) {
    Tensors sent{group.getRank() == 0 ? at::full({1}, 3.F).expand({4}) : at::zeros({4})};
    group.broadcast(sent, {})->wait();
    EXPECT_TRUE(sent[0].eq(3).all().item<bool>());
    const at::Tensor shared = at::ones({1}).expand({4});
    EXPECT_TRUE(contains(error_of([&] { all_reduced(group, shared); }), "whose elements share memory"));
    EXPECT_TRUE(contains(error_of([&] { begin_receive(group, shared, 1 - group.getRank(), 0)->wait(); }),
                         "whose elements share memory"));
    EXPECT_TRUE(all_reduced(group, at::ones({5})).eq(2).all().item<bool>());
  });
}

}  // namespace
}  // namespace ripieno::c10d
