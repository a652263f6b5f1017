#include "ripieno/strategy/federated.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "ripieno/codec/wire.h"
#include "ripieno/collective/encoded.h"
#include "ripieno/collective/execute.h"
#include "ripieno/core/async.h"
#include "ripieno/core/random.h"
#include "ripieno/numeric/numbers.h"
#include "ripieno/strategy/alike.h"
#include "ripieno/strategy/federated_rounds.h"
#include "ripieno/strategy/outer.h"
#include "ripieno/strategy/share_state.h"

namespace ripieno::strategy {
namespace {

constexpr int cloud = 0;

codec::CodecOptions upload_codec(const Plan& plan) {
  codec::CodecOptions codec = plan.exchange.codec;
  codec.error_feedback = codec.error_feedback && plan.federated.deltas;
  return codec;
}

DType download_type(const Plan& plan, DType native) {
  const std::string& codec = plan.exchange.codec.name;
  return codec::find_codec(codec).kind == codec::CodecKind::wire ? codec::find_wire_format(codec).type(native) : native;
}

class Federated final : public Strategy {
 public:
  Federated(const StrategyInfo& info, const Plan& plan, Workplace workplace)
      : Strategy(plan, std::move(workplace)),
        layout_(place_.learner.layout()),
        own_steps_(plan, place_),
        outer_(make_outer(info.name, plan.outer, layout_.parameters, layout_.type)),
        outer_rate_(outer_rate(info.name, plan.outer)),
        global_(layout_.parameters, layout_.type, place_.comm.memory()),
        statistics_(is_cloud() ? layout_.buffers : 0, layout_.type),
        upload_(upload_codec(plan), layout_.parameters, layout_.type, Random(~plan.seed, place_.comm.rank()).next()) {
    regrouped();
  }

  NumberSpan consensus() override { return global_.span(); }
  Task<> conclude() override { return start(); }

  void visit(StateVisitor& visitor) override {
    own_steps_.visit(visitor);
    if (is_cloud()) {
      visit_outer(*outer_, visitor);
    } else {
      upload_.visit(visitor, "federated.upload");
    }
  }

 private:
  Task<> start() override {
    Learner& learner = place_.learner;
    const auto own_statistics = numeric::copy_of(learner.buffers());
    co_await start_alike(place_.comm, learner);
    if (plan_.first_epoch > 0 && statistics_are(Statistics::local))
      numeric::convert(learner.buffers(), own_statistics->span());
    numeric::convert(global_.span(), learner.parameters());
    const std::vector<std::uint32_t> steps = co_await tell_sizes();
    end_ = federated_end(plan_, steps);
    require(length() >= 1, "federated averaging with ", length(), " local epochs: at least 1");
  }

  std::uint32_t epochs_end() const override { return end_; }
  std::uint32_t steps_in(std::uint32_t epoch) const override {
    if (!round_of(epoch).has(rank())) return 0;
    const std::uint32_t steps = place_.learner.steps_per_epoch();
    if (plan_.max_steps == 0) return steps;
    const std::uint64_t before = std::min(plan_.max_steps, std::uint64_t{epoch} * steps);
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(steps, plan_.max_steps - before));
  }
  /// 1. Rounds are drawn as they come: a user's loop may have any number.
  const Round& round_of(std::uint32_t epoch) const { return round(epoch / length() - first_round()); }
  const Round& round(std::size_t number) const {
    while (rounds_.size() <= number) {
      const auto t = first_round() + static_cast<std::uint32_t>(rounds_.size());
      rounds_.push_back(round_at(plan_, end_, place_.comm.size(), t));
    }
    return rounds_[number];
  }
  std::int64_t number_of(const Round& round) const { return round.first_epoch / length() - first_round(); }
  std::uint32_t length() const { return plan_.federated.local_epochs; }
  std::uint32_t first_round() const { return plan_.first_epoch / length(); }

  Task<> begin_epoch(std::uint32_t epoch) override {
    const Round& round = round_of(epoch);
    const std::int64_t with_this = number_of(round) + 1;
    if (epoch != round.first_epoch || !(round.has(rank()) || is_cloud())) co_return;
    if (is_cloud() ? served_ == with_this : downloaded_ == with_this) co_return;  // done before an abort
    if (is_cloud() && downloaded_ != with_this) numeric::convert(statistics_.span(), place_.learner.buffers());
    if (is_cloud()) downloaded_ = with_this;
    co_await download(&round.clients);
    (is_cloud() ? served_ : downloaded_) = with_this;
  }

  /// 3
  Task<> attempt(TrainingStep step, StepResult* result) override { co_await own_steps_.take(step, unweighted, result); }
  void commit(TrainingStep) override {}

  Task<> end_epoch(EpochEnd end, observe::EpochRecord* record) override {
    const Round& round = round_of(end.epoch);
    if (end.epoch + 1 < round.end_epoch) {
      record->parameters_hash = numeric::hash(place_.learner.parameters());
      co_return;
    }
    if (averaged_ <= number_of(round)) {
      if (round.has(rank()) && !is_cloud()) co_await upload();
      if (is_cloud()) co_await average(&round);
    }
    co_await end_round(&round, record);
  }

  /// What the clients have learnt since the last round is nobody's: the model is that of the last round.
  Task<> end_loop() override {
    if (is_cloud() && downloaded_ > averaged_ && !statistics_are(Statistics::local))
      numeric::convert(place_.learner.buffers(), statistics_.span());
    co_return;
  }

  bool can_save_after(EpochEnd end) const override {
    const bool cut = end.last && plan_.max_steps > 0;
    return end.epoch + 1 == round_of(end.epoch).end_epoch && !cut;
  }

  void regrouped() override { channel_ = place_.comm.channel(place_.comm.take_channels(), observe::Purpose::exchange); }
  int rank() const { return place_.comm.rank(); }
  bool is_cloud() const { return rank() == cloud; }
  transport::Endpoint* endpoint() const { return &place_.comm.endpoint(); }
  bool statistics_are(Statistics which) const { return plan_.federated.statistics == which; }

  transport::Message model() const {
    return {channel_, "download", download_type(plan_, layout_.type), layout_.parameters};
  }
  transport::Message statistics() const { return {channel_, "statistics", layout_.type, layout_.buffers}; }

  /// A client's samples and steps in an epoch.
  struct Sizes {
    std::uint32_t samples, steps;
  };

  /// Tells all ranks each client's samples, which weight it, and its steps an epoch. Returns the steps.
  Task<std::vector<std::uint32_t>> tell_sizes() {
    const Sizes own{place_.learner.samples_per_epoch(), place_.learner.steps_per_epoch()};
    const std::vector<Sizes> all = co_await place_.comm.all_gather(own, observe::Purpose::setup);
    std::vector<std::uint32_t> steps;
    for (const Sizes& sizes : all) {
      samples_.push_back(sizes.samples);
      steps.push_back(sizes.steps);
    }
    co_return steps;
  }

  /// 2. Rank 0 sends to those clients; other ranks receive from it.
  Task<> download(const std::vector<int>* clients) {
    const observe::StageTimer timer(place_.recorder, place_.comm.runtime(), observe::Stage::exchange, 0);
    const NumberSpan buffers = is_cloud() ? statistics_.span() : place_.learner.buffers();
    const bool with_statistics = buffers.count > 0 && !statistics_are(Statistics::local);
    if (!is_cloud()) {
      const int from = place_.comm.member(cloud);
      co_await endpoint()->receive(from, model(), global_.span(), numeric::Reduce::replace);
      numeric::convert(place_.learner.parameters(), global_.span());
      if (with_statistics) co_await endpoint()->receive(from, statistics(), buffers, numeric::Reduce::replace);
      co_return;
    }
    for (const int client : *clients) {
      if (client == cloud) continue;
      co_await collective::send_numbers(endpoint(), place_.comm.member(client), model(), global_.span());
      if (with_statistics)
        co_await collective::send_numbers(endpoint(), place_.comm.member(client), statistics(), buffers);
    }
  }

  /// What this client uploads: its parameters, or their change.
  std::unique_ptr<numeric::Numbers> news() {
    auto numbers = numeric::copy_of(place_.learner.parameters(), place_.comm.memory());
    if (plan_.federated.deltas) numeric::subtract(numbers->span(), numbers->span(), global_.span());
    return numbers;
  }

  /// 4
  Task<> upload() {
    const observe::StageTimer timer(place_.recorder, place_.comm.runtime(), observe::Stage::exchange, 0);
    const auto numbers = news();
    co_await upload_.send(endpoint(), place_.comm.member(cloud), channel_, "upload", numbers->span());
    const NumberSpan buffers = place_.learner.buffers();
    if (buffers.count == 0 || !statistics_are(Statistics::mean)) co_return;
    co_await collective::send_numbers(endpoint(), place_.comm.member(cloud), statistics(), buffers);
  }

  /// 5
  Task<> average(const Round* round) {
    const observe::StageTimer timer(place_.recorder, place_.comm.runtime(), observe::Stage::exchange, 0);
    double samples = 0;
    for (const int client : round->clients) samples += samples_[client];
    const Memory memory = numeric::memory_like(place_.learner.parameters());
    numeric::Numbers sum(layout_.parameters, layout_.type, memory);
    auto buffers_sum = std::make_unique<numeric::Numbers>(layout_.buffers, layout_.type);
    for (const int client :
         round->clients) {  // one at a time: one buffer suffices, and sums are the same bits every time
      const double weight = samples > 0 ? samples_[client] / samples : 0;
      std::unique_ptr<numeric::Numbers> numbers, buffers;
      if (client == cloud) {
        numbers = news();
        buffers = numeric::copy_of(place_.learner.buffers());
      } else {
        numbers = std::make_unique<numeric::Numbers>(layout_.parameters, layout_.type, memory);
        buffers = std::make_unique<numeric::Numbers>(layout_.buffers, layout_.type);
        co_await upload_.receive(endpoint(), place_.comm.member(client), channel_, "upload", numbers->span());
        if (layout_.buffers > 0 && statistics_are(Statistics::mean))
          co_await endpoint()->receive(place_.comm.member(client), statistics(), buffers->span(),
                                       numeric::Reduce::replace);
      }
      numeric::scale(numbers->span(), weight);
      numeric::add(sum.span(), numbers->span());
      numeric::scale(buffers->span(), weight);
      numeric::add(buffers_sum->span(), buffers->span());
    }
    averaged_ = number_of(*round) + 1;
    if (samples == 0) co_return;
    const NumberSpan gradient = sum.span();  // -d, or w - (weighted mean of the w_i), which is the same
    if (plan_.federated.deltas) {
      numeric::scale(gradient, -1);
    } else {
      numeric::subtract(gradient, global_.span(), gradient);
    }
    outer_->begin_step();
    outer_->update(0, global_.span(), gradient, outer_rate_);
    if (statistics_are(Statistics::mean)) mean_statistics_ = std::move(buffers_sum);
  }

  /// 6
  Task<> end_round(const Round* round, observe::EpochRecord* record) {
    Learner& learner = place_.learner;
    bool evaluates = false;
    for (std::uint32_t epoch = round->first_epoch; epoch < round->end_epoch; ++epoch)
      evaluates = evaluates || plan_.evaluates_after(epoch, round->end_epoch == end_);
    if (evaluates && round->has(rank()) && std::isnan(record->own_accuracy)) {
      const observe::StageTimer timer(place_.recorder, place_.comm.runtime(), observe::Stage::evaluate);
      const Evaluation own = co_await learner.evaluate(0, 1);
      record->own_accuracy = own.correct / own.samples;
    }
    if (is_cloud()) {
      numeric::convert(learner.parameters(), global_.span());
      if (mean_statistics_) numeric::convert(learner.buffers(), mean_statistics_->span());
      mean_statistics_.reset();
    }
    Score score;
    if (evaluates) {
      score = co_await evaluate_global(record->epoch);
    } else if (place_.regroup) {
      co_await place_.comm.barrier();
    }
    commit_round(record, {score, numeric::hash(learner.parameters())});
  }

  Task<Score> evaluate_global(std::uint32_t epoch) {
    const observe::StageTimer timer(place_.recorder, place_.comm.runtime(), observe::Stage::evaluate);
    const auto own_statistics = numeric::copy_of(place_.learner.buffers());
    Score score;
    const std::exception_ptr error = co_await error_of(share_and_evaluate(epoch, &score));
    if (statistics_are(Statistics::local)) numeric::convert(place_.learner.buffers(), own_statistics->span());
    if (error) std::rethrow_exception(error);
    co_return score;
  }

  Task<> share_and_evaluate(std::uint32_t epoch, Score* score) {
    const collective::ExecuteOptions options{layout_.type, observe::Purpose::evaluate};
    co_await collective::broadcast(place_.comm, place_.learner.parameters(), options);
    co_await collective::broadcast(place_.comm, place_.learner.buffers(), options);
    numeric::convert(global_.span(), place_.learner.parameters());
    *score = co_await evaluate_together(place_.comm, place_.learner);
    if (!place_.loop) co_await compare_replicas(place_.comm, held_by(place_.learner), described({epoch + 1, 0}));
  }

  /// The end of a round, as all ranks record it.
  struct Outcome {
    Score score;
    std::uint64_t hash = 0;
  };

  /// Rank 0 has averaged, so each client's upload has arrived.
  void commit_round(observe::EpochRecord* record, Outcome outcome) {
    if (!is_cloud()) upload_.commit();
    outcome_ = outcome;
    record->accuracy = outcome.score.accuracy;
    record->loss = outcome.score.loss;
    record->parameters_hash = outcome.hash;
    ++ended_;
  }

  /// This rank's progress, in rounds.
  struct Progress {
    std::int64_t ended = 0;       ///< rounds committed
    std::int64_t averaged = 0;    ///< rounds that rank 0 has averaged
    std::int64_t downloaded = 0;  ///< rounds whose model this client has, or rank 0 has begun to send
  };

  /// A rank that has not committed the end of a round takes its outcome from one that has. Rank 0 sends the model again
  /// to clients that lack it. A client uploads again unless rank 0 has averaged.
  Task<bool> recover(BrokenOff what) override {
    place_.learner.drop();
    const Progress mine{ended_, averaged_, downloaded_};
    const std::vector<Progress> all = co_await place_.comm.all_gather(mine);
    averaged_ = all[cloud].averaged;
    const auto less = [](const Progress& a, const Progress& b) { return a.ended < b.ended; };
    const auto ahead = std::max_element(all.begin(), all.end(), less),
               last = std::min_element(all.begin(), all.end(), less);
    const bool behind = ended_ < ahead->ended;
    if (last->ended < ahead->ended) co_await hand_over_round(static_cast<int>(ahead - all.begin()), behind, what);
    co_await download_again(all);
    // Also if another abort broke off an earlier recovery, in which this rank had caught up.
    co_return what.record&& ended_ > number_of(round_of(what.record->epoch));
  }

  Task<> hand_over_round(int from, bool behind, BrokenOff what) {
    const Outcome outcome = co_await place_.comm.broadcast(outcome_, from);
    const auto model = numeric::copy_of(global_.span()), statistics = numeric::copy_of(place_.learner.buffers());
    const std::function<void(StateVisitor&)> shared = [&](StateVisitor& visitor) {
      visitor.span("model", model->span());
      visitor.span("statistics", statistics->span());
    };
    co_await share_state(place_.comm, cloud, shared);
    if (!behind) co_return;
    // If rank 0 is ahead, this rank gets its present model with the next download or evaluation.
    numeric::convert(global_.span(), model->span());
    if (!statistics_are(Statistics::local)) numeric::convert(place_.learner.buffers(), statistics->span());
    commit_round(what.record, outcome);
  }

  Task<> download_again(std::vector<Progress> all) {
    const std::int64_t begun = all[cloud].downloaded;
    if (begun == 0) co_return;
    std::vector<int> missing;
    for (const int client : round(static_cast<std::size_t>(begun - 1)).clients) {
      if (client != cloud && all[static_cast<std::size_t>(client)].downloaded < begun) missing.push_back(client);
    }
    const bool misses = std::binary_search(missing.begin(), missing.end(), rank());
    if (is_cloud() || misses) co_await download(&missing);
    if (misses) downloaded_ = begun;
    if (is_cloud()) served_ = begun;
  }

  const Layout layout_;
  OwnSteps own_steps_;
  std::unique_ptr<optim::Optimiser> outer_;  // allocates at its first step, which only rank 0 takes
  double outer_rate_;
  numeric::Numbers global_;      // w: at rank 0 the model, elsewhere the last download
  transport::Channel channel_;   // of downloads, uploads and statistics
  numeric::Numbers statistics_;  // at rank 0: those of the last model
  collective::EncodedStream upload_;
  std::vector<double> samples_;                             // of each client's shard
  std::unique_ptr<numeric::Numbers> mean_statistics_;       // set once a round has changed them
  mutable std::deque<Round> rounds_;                        // those drawn so far, from the plan's first on
  std::uint32_t end_ = 0;                                   // epochs
  std::int64_t ended_ = 0, averaged_ = 0, downloaded_ = 0;  // as in Progress; averaged_ as far as this rank knows
  std::int64_t served_ = 0;                                 // at rank 0: rounds whose model all their clients have
  Outcome outcome_;                                         // of the last committed round
};

}  // namespace

std::unique_ptr<Strategy> make_federated(const StrategyInfo& info, const Plan& plan, Workplace workplace) {
  return std::make_unique<Federated>(info, plan, std::move(workplace));
}

std::optional<std::uint64_t> federated_bytes_sent(const StrategyInfo&, const Plan& plan, const Layout& layout,
                                                  const Workload& work, int rank) {
  Plan whole_plan = plan;
  whole_plan.epochs = plan.first_epoch + work.epochs;
  const std::uint64_t buffers = layout.buffers * size_of(layout.type);
  const Statistics statistics = plan.federated.statistics;
  const std::uint64_t model = layout.parameters * size_of(download_type(plan, layout.type));
  const std::uint64_t down = model + (statistics != Statistics::local ? buffers : 0);
  std::uint64_t messages = 0;
  for (const Round& round : rounds_between(whole_plan, federated_end(whole_plan, work.steps), work.world.ranks)) {
    if (rank != cloud) {
      messages += round.has(rank);
    } else {
      messages += round.clients.size() - round.has(cloud);
    }
  }
  if (rank == cloud) return messages * down;
  const auto up = collective::EncodedStream(upload_codec(plan), layout.parameters, layout.type, 0).bytes();
  if (!up) return std::nullopt;
  return messages * (*up + (statistics == Statistics::mean ? buffers : 0));
}

double federated_rounds(const Plan& plan, double) { return 1.0 / plan.federated.local_epochs; }

}  // namespace ripieno::strategy
