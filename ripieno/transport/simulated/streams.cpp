#include <algorithm>

#include "ripieno/transport/simulated/state.h"

namespace ripieno::transport::simulation {

void ParcelReference::end(Parcel* parcel) {
  const std::unique_ptr<Parcel> owned(parcel);
  if (!parcel->sender) return;
  parcel->state->end_sender(*parcel, parcel->state->closed);
  parcel->state->post_ready();
}

std::size_t State::StreamHash::operator()(const StreamKey& key) const {
  constexpr std::uint64_t odd = 0x9E3779B97F4A7C15u;
  const auto mix = [](std::uint64_t h, std::uint64_t more) { return (h ^ more ^ (h >> 29)) * odd; };
  const std::uint64_t ranks = static_cast<std::uint64_t>(key.from) << 32 | static_cast<std::uint32_t>(key.to);
  const std::uint64_t id = static_cast<std::uint64_t>(key.channel.purpose) << 32 | key.channel.id;
  const std::uint64_t h = mix(mix(mix(odd, ranks), id), key.channel.scope);
  return h ^ h >> 32;
}

Lane& State::lane(int from, int to) {
  const auto key = static_cast<std::uint64_t>(from) << 32 | static_cast<std::uint32_t>(to);
  const auto [found, is_new] = lanes.try_emplace(key);
  Lane& lane = found->second;
  if (!is_new) return lane;
  lane.from = from;
  lane.to = to;
  lane.is_inside = from / options.per_node == to / options.per_node;
  lane.out = lane.is_inside ? &at(from).inside : &at(from).card;
  lane.in = lane.is_inside ? &at(to).inside : &at(to).card;
  return lane;
}

Stream& State::find_stream(int from, int to, const Channel& channel) {
  const auto [found, is_new] = streams.try_emplace({from, to, channel});
  Stream& stream = found->second;
  if (!is_new) return stream;
  stream.lane = &lane(from, to);
  stream.channel = channel;
  auto& of_lane = stream.lane->streams;
  const auto before = [](const Stream* one, const Channel& other) { return one->channel < other; };
  of_lane.insert(std::lower_bound(of_lane.begin(), of_lane.end(), channel, before), &stream);
  at(from).streams.push_back(&stream);
  at(to).streams.push_back(&stream);
  return stream;
}

Stream& State::out_stream(int from, int to, const Channel& channel) {
  Stream*& last = at(from).last_out;
  if (!last || !last->is(from, to, channel)) last = &find_stream(from, to, channel);
  return *last;
}

Stream& State::in_stream(int from, int to, const Channel& channel) {
  Stream*& last = at(to).last_in;
  if (!last || !last->is(from, to, channel)) last = &find_stream(from, to, channel);
  return *last;
}

void State::start(int rank, std::unique_ptr<Operation> owned) {
  Operation* const operation = owned.release();
  Parcel* const parcel = operation->parcel;
  operation->left = (parcel != nullptr) + operation->receives;
  try {
    check(rank, *operation);
  } catch (...) {
    operation->error = std::current_exception();
    ready.push(operation);
    return post_ready();
  }
  if (parcel) {
    Stream& to = out_stream(rank, operation->peer, parcel->message.channel);
    parcel->state = shared_from_this();
    parcel->stream = &to;
    parcel->sender = operation;
    operation->parcel = nullptr;  // its stream holds it now
    to.parcels.push(parcel);
    if (!to.not_started) to.not_started = parcel;
    advance(to);
  }
  if (operation->receives) {
    Stream& from = in_stream(operation->in.peer, rank, operation->in.message.channel);
    from.posted.push(operation);
    ++from.asked;
    advance(from);
    match(from);
  }
  post_ready();
}

void State::advance(Stream& stream) {
  Lane& lane = *stream.lane;
  while (Parcel* const parcel = stream.not_started) {
    const bool is_asked = stream.started < stream.asked;
    if (!is_asked && lane.unasked + parcel->payload.size() > options.window_bytes) return;
    if (!is_asked) {
      parcel->unasked = true;
      lane.unasked += parcel->payload.size();
    }
    stream.not_started = parcel->next;
    ++stream.started;
    send(*parcel);
  }
}

void State::match(Stream& stream) {
  std::size_t freed = 0;
  while (!stream.parcels.empty() && !stream.posted.empty() && stream.parcels.first()->delivered) {
    Parcel* const parcel = stream.parcels.pop();
    Operation* const receiver = stream.posted.pop();
    --stream.started;
    --stream.asked;
    if (parcel->unasked) freed += parcel->payload.size();
    take(*parcel, *receiver);
    ParcelReference::release(parcel);
  }
  if (freed > 0) free_window(*stream.lane, freed);
}

void State::take(Parcel& parcel, Operation& receiver) {
  const auto& [from, expected, into] = receiver.in;
  const Message& sent = parcel.message;
  if (sent.operation != expected.operation || sent.type != expected.type || sent.count != expected.count ||
      parcel.payload.size() != into.payload()) {
    const std::string what = text("rank ", parcel.stream->lane->to, " expects ", describe(expected), " from rank ",
                                  from, ", which sends ", describe(sent));
    return end(&receiver, std::make_exception_ptr(Error(ErrorKind::mismatch, what)));
  }
  if (!parcel.data.empty() && into.has_data()) into.take(0, parcel.data);
  end(&receiver, nullptr);
}

void State::free_window(Lane& lane, std::size_t bytes) {
  lane.unasked -= bytes;
  for (Stream* const stream : lane.streams) advance(*stream);
}

void State::end(Operation* operation, std::exception_ptr error) {
  if (error && !operation->error) {
    operation->error = error;
    if (operation->on_error) operation->on_error(error);  // it ends the other half
  }
  if (--operation->left == 0) ready.push(operation);
}

void State::end_sender(Parcel& parcel, std::exception_ptr error) {
  if (parcel.sender) end(std::exchange(parcel.sender, nullptr), std::move(error));
}

namespace {

void go_on(std::unique_ptr<Operation> operation) {
  Resume resume = std::move(operation->resume);
  const std::exception_ptr error = std::move(operation->error);
  operation.reset();
  resume(error);
}

}  // namespace

void State::post_ready() {
  while (!ready.empty()) {
    std::unique_ptr<Operation> one(ready.pop());
    asio::post(runtime.context(), [one = std::move(one)]() mutable { go_on(std::move(one)); });
  }
}

std::vector<Stream*> State::in_order() {
  std::vector<Stream*> all;
  all.reserve(streams.size());
  for (auto& [key, stream] : streams) all.push_back(&stream);
  std::sort(all.begin(), all.end(), [](const Stream* a, const Stream* b) {
    return std::tuple(a->lane->from, a->lane->to, a->channel) < std::tuple(b->lane->from, b->lane->to, b->channel);
  });
  return all;
}

std::string State::stalled() {
  std::string waits;
  const auto add = [&waits](const auto&... what) { waits += text(waits.empty() ? "" : ", ", what...); };
  for (const Stream* const stream : in_order()) {
    const auto [from, to] = std::pair(stream->lane->from, stream->lane->to);
    for (const Operation* one = stream->posted.first(); one; one = one->next)
      add("rank ", to, " waits for ", describe(one->in.message), " from rank ", from);
    for (const Parcel* one = stream->not_started; one; one = one->next)
      add("rank ", from, " waits for rank ", to, " to take ", describe(one->message));
  }
  return waits;
}

}  // namespace ripieno::transport::simulation
