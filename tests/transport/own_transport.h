// A transport as one would make it outside of Ripieno's tree: bytes in queues between threads of one process. What it
// takes is how bytes move (ByteQueue), a link that says what it does with them (QueueLink), and how ranks find each
// other (Hall). The last line adds it; then it passes the tests that Ripieno's own pass (ranks.h).
#pragma once

#include <algorithm>
#include <array>
#include <asio/post.hpp>
#include <functional>
#include <memory>
#include <mutex>

#include "ripieno/transport/linked_endpoint.h"
#include "ripieno/transport/transports.h"

namespace own {

using namespace ripieno;
using namespace ripieno::transport;

struct QueueOptions {
  std::size_t most_bytes = 256 << 10;  ///< that wait between a rank and another; a piece at least
  static constexpr std::size_t piece_bytes = 1024;
};

/// Bytes from one rank to another. Each side says how it is woken, on whichever thread.
class ByteQueue {
 public:
  using Wake = std::function<void()>;

  explicit ByteQueue(QueueOptions options) : options_(options) {}

  void enter(Wake reader, Wake writer) {
    const std::lock_guard lock(mutex_);
    if (reader) reader_ = std::move(reader);
    if (writer) writer_ = std::move(writer);
  }
  /// Nothing more is put; what is there can still be taken.
  void leave(bool as_reader) {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    (as_reader ? reader_ : writer_) = nullptr;
    if (const Wake& other = as_reader ? writer_ : reader_) other();
  }
  bool is_closed() {
    const std::lock_guard lock(mutex_);
    return closed_;
  }

  /// How many of `size` it has room for, of which it takes copies; null: zeros. It has room for all that is `last`.
  std::size_t put(const std::byte* from, std::size_t size, bool last = false) {
    const std::lock_guard lock(mutex_);
    const std::size_t room = closed_ ? 0 : last ? size : options_.most_bytes - bytes_.size();
    const std::size_t count = std::min(size, room);
    if (from) {
      bytes_.insert(bytes_.end(), from, from + count);
    } else {
      bytes_.resize(bytes_.size() + count);
    }
    if (count > 0 && reader_) reader_();
    return count;
  }
  /// Fills all of it; false where so much is not there yet.
  bool take(Bytes into) {
    const std::lock_guard lock(mutex_);
    if (bytes_.size() < into.size()) return false;
    const auto end = bytes_.begin() + static_cast<std::ptrdiff_t>(into.size());
    std::copy(bytes_.begin(), end, into.begin());
    bytes_.erase(bytes_.begin(), end);
    if (writer_) writer_();
    return true;
  }

 private:
  const QueueOptions options_;
  std::mutex mutex_;
  std::deque<std::byte> bytes_;
  Wake reader_, writer_;
  bool closed_ = false;
};

class QueueLink final : public PeerLink {
 public:
  QueueLink(Runtime& runtime, int rank, int peer, LinkOptions options, std::shared_ptr<Aborts> aborts,
            std::shared_ptr<ByteQueue> in, std::shared_ptr<ByteQueue> out)
      : PeerLink(runtime, rank, peer, options, std::move(aborts)), in_(std::move(in)), out_(std::move(out)) {}

  void start() {
    wake_ = [&context = runtime_.context(), weak = weak_from_this()] {
      asio::post(context, [weak] {
        if (const auto link = weak.lock()) static_cast<QueueLink&>(*link).progress();
      });
    };
    in_->enter(wake_, nullptr);
    out_->enter(nullptr, wake_);
    wake_();  // for what has come already
  }

  std::string way() const override { return "a queue"; }
  Task<> send(Message message, ConstBytes payload) override {
    return send(std::static_pointer_cast<QueueLink>(shared_from_this()), message, payload);
  }
  void tell(const Abort& abort) override {
    if (ended()) return;
    const auto reason = std::as_bytes(std::span(abort.reason));
    auto outgoing = std::make_shared<Outgoing>(runtime_, Message{}, make_frame(abort, options_.epoch), ConstBytes());
    outgoing->keep(reason);
    outgoing->dropped = true;  // nobody waits for it
    const bool begun = !outgoing_.empty() && outgoing_.front()->written > 0;
    outgoing_.insert(outgoing_.begin() + (begun ? 1 : 0), std::move(outgoing));
    write();
  }

 private:
  /// A message that is not in the queue to its end.
  struct Outgoing {
    Outgoing(Runtime& runtime, Message message, const Frame& frame, ConstBytes payload)
        : message(message), header(encode(frame)), payload(payload), done(runtime) {}
    void keep(ConstBytes bytes) {
      if (bytes.data()) own.assign(bytes.begin(), bytes.end());
      payload = bytes.data() ? ConstBytes(own) : bytes;
    }
    Message message;
    FrameBytes header;
    ConstBytes payload;
    std::vector<std::byte> own;  ///< the payload, where it is nobody else's
    std::size_t written = 0;     ///< of header and payload
    bool sent = false, dropped = false;
    Event done;
  };
  /// A message that is not out of the queue to its end.
  struct Incoming {
    Frame frame;
    Lane* lane;                      ///< null: an abort, or a message that nobody wants
    std::shared_ptr<Posted> posted;  ///< who had asked when it began,
    std::optional<Arrived> arrived;  ///< or where it is kept
    std::uint64_t offset = 0;
    std::string reason;
  };

  static Task<> send(std::shared_ptr<QueueLink> link, Message message, ConstBytes payload) {
    link->throw_if_aborted(message.channel.scope);
    if (link->ended()) std::rethrow_exception(link->failure("sending", message));
    const std::uint32_t sequence = link->lanes_[message.channel].next_sent++;
    const Frame frame = make_frame(message, link->options_.epoch, sequence, payload.size());
    const auto outgoing = std::make_shared<Outgoing>(link->runtime_, message, frame, payload);
    link->outgoing_.push_back(outgoing);
    link->progress();
    if (outgoing->sent) co_return;
    const Watched watched(link.get(), message);
    co_await outgoing->done.wait();
  }

  void progress() {
    if (ended()) return;
    try {
      write();
      read();
      if (ended() || !in_->is_closed()) return;
      read();  // what was put before that
      if (!ended() && !is_paused()) lose("connection closed");
    } catch (...) {
      give_up(0, std::current_exception());
    }
  }

  void write(bool last = false) {
    while (!outgoing_.empty()) {
      Outgoing& one = *outgoing_.front();
      while (one.written < frame_bytes + one.payload.size()) {
        const bool in_header = one.written < frame_bytes;
        const std::size_t offset = one.written - (in_header ? 0 : frame_bytes);
        const ConstBytes part = in_header ? ConstBytes(one.header) : one.payload;
        const std::size_t count = out_->put(part.data() ? part.data() + offset : nullptr, part.size() - offset, last);
        if (count == 0) return;
        one.written += count;
      }
      one.sent = true;
      if (!one.dropped) one.done.set();
      outgoing_.pop_front();
    }
  }

  void read() {
    while (!ended() && (incoming_ || read_header()) && decide() && read_payload()) finish();
  }
  bool read_header() {
    FrameBytes header;
    if (!in_->take(header)) return false;
    const std::optional<Frame> frame = decode(header);
    if (!frame) {
      fail(ErrorKind::mismatch, "rank ", rank_, ": rank ", peer_, " sent bytes that are not a message's header");
    }
    check_epoch(*frame);
    const bool unwanted = frame->kind == FrameKind::abort || aborted(frame->channel.scope);
    incoming_.emplace(Incoming{*frame, unwanted ? nullptr : &admit(*frame)});
    return true;
  }
  /// Where the message goes. False: nobody has asked for it and it exceeds the credit.
  bool decide() {
    Incoming& in = *incoming_;
    if (!in.lane || in.posted || in.arrived) return true;
    if (!in.lane->posted.empty()) {
      in.posted = in.lane->posted.front();
      if (auto wrong = mismatch(in.frame, in.posted->message, in.posted->sink.payload())) std::rethrow_exception(wrong);
      return true;
    }
    Arrived arrived{in.frame};
    if (unasked_ + arrived.cost() > options_.unasked_bytes) return false;
    unasked_ += arrived.cost();
    arrived.payload = scratch(in.frame.payload);
    in.arrived = std::move(arrived);
    return true;
  }
  bool is_paused() const { return incoming_ && incoming_->lane && !incoming_->posted && !incoming_->arrived; }
  /// Whether all of it is there. Pieces are whole numbers of elements.
  bool read_payload() {
    Incoming& in = *incoming_;
    std::array<std::byte, QueueOptions::piece_bytes> room;
    while (in.offset < in.frame.payload) {
      const Bytes part(room.data(), std::min<std::uint64_t>(room.size(), in.frame.payload - in.offset));
      if (!in_->take(part)) return false;
      if (in.posted) {
        in.posted->sink.take(in.offset, part);
      } else if (in.arrived) {
        std::copy(part.begin(), part.end(), in.arrived->payload.get() + in.offset);
      } else if (in.frame.kind == FrameKind::abort) {
        in.reason.append(reinterpret_cast<const char*>(part.data()), part.size());
      }
      in.offset += part.size();
    }
    return true;
  }
  void finish() {
    Incoming in = std::move(*incoming_);
    incoming_.reset();
    if (in.frame.kind == FrameKind::abort) {
      aborts_->hear(peer_, abort_in(in.frame, std::move(in.reason)));
    } else if (in.lane && in.posted) {
      serve(*in.lane);
    } else if (in.lane && in.lane->posted.empty()) {
      in.lane->arrived.push_back(std::move(*in.arrived));
    } else if (in.lane) {  // asked for meanwhile
      unasked_ -= in.arrived->cost();
      const std::shared_ptr<Posted> posted = in.lane->posted.front();
      if (auto wrong = mismatch(in.frame, posted->message, posted->sink.payload())) std::rethrow_exception(wrong);
      give(*in.arrived, posted->sink);
      serve(*in.lane);
    }
  }

  void asked() override { progress(); }
  void drop(const Abort& abort) override {
    for (auto at = outgoing_.begin(); at != outgoing_.end();) {
      Outgoing& one = **at;
      if (one.dropped || one.message.channel.scope != abort.scope) {
        ++at;
        continue;
      }
      one.done.fail(abort.error);
      one.dropped = true;
      if (one.written > 0) one.keep(one.payload);  // is written to its end
      at = one.written > 0 ? at + 1 : outgoing_.erase(at);
    }
    if (incoming_ && incoming_->lane && incoming_->frame.channel.scope == abort.scope) {
      if (incoming_->arrived) unasked_ -= incoming_->arrived->cost();
      incoming_->posted.reset();
      incoming_->arrived.reset();
      incoming_->lane = nullptr;
    }
    wake_();  // reading goes on
  }
  void hang_up() override {
    const auto has_not_begun = [](const auto& one) { return one->written == 0 && !one->dropped; };
    const auto unsent = std::stable_partition(outgoing_.begin(), outgoing_.end(), std::not_fn(has_not_begun));
    std::deque<std::shared_ptr<Outgoing>> rest(unsent, outgoing_.end());
    outgoing_.erase(unsent, outgoing_.end());
    write(true);
    outgoing_.insert(outgoing_.end(), rest.begin(), rest.end());
    in_->leave(true);
    out_->leave(false);
    incoming_.reset();
    for (auto& outgoing : std::exchange(outgoing_, {})) {
      if (!outgoing->dropped) outgoing->done.fail(failure("sending", outgoing->message));
    }
  }

  std::shared_ptr<ByteQueue> in_, out_;
  ByteQueue::Wake wake_;
  std::deque<std::shared_ptr<Outgoing>> outgoing_;
  std::optional<Incoming> incoming_;
};

/// Where ranks find each other: the next so many that come are a job.
class Hall {
 public:
  explicit Hall(QueueOptions options) : options_(options) {}

  /// [from * size + to]
  using Queues = std::vector<std::shared_ptr<ByteQueue>>;
  Queues enter(int size) {
    const std::lock_guard lock(mutex_);
    if (came_ == 0) {
      queues_.resize(static_cast<std::size_t>(size) * static_cast<std::size_t>(size));
      for (auto& queue : queues_) queue = std::make_shared<ByteQueue>(options_);
    }
    came_ = (came_ + 1) % size;
    return queues_;
  }

 private:
  const QueueOptions options_;
  std::mutex mutex_;
  int came_ = 0;
  Queues queues_;
};

inline Task<std::shared_ptr<Endpoint>> join_by_queues(std::shared_ptr<Hall> hall, Joining joining) {
  const Hall::Queues queues = hall->enter(joining.size);
  const auto queue = [&](int from, int to) { return queues[static_cast<std::size_t>(from * joining.size + to)]; };
  const auto aborts = std::make_shared<Aborts>(joining.rank);
  std::vector<std::shared_ptr<PeerLink>> links(static_cast<std::size_t>(joining.size));
  for (int peer = 0; peer < joining.size; ++peer) {
    if (peer == joining.rank) continue;
    const auto link = std::make_shared<QueueLink>(joining.runtime, joining.rank, peer, joining.link, aborts,
                                                  queue(peer, joining.rank), queue(joining.rank, peer));
    link->start();
    links[static_cast<std::size_t>(peer)] = link;
  }
  co_return std::make_shared<LinkedEndpoint>(joining.runtime, joining.rank, std::move(links), aborts);
}

inline Transport queues(QueueOptions options = {}) {
  const auto hall = std::make_shared<Hall>(options);
  return {"queues", "byte queues between threads of one process",
          [hall](Joining joining) { return join_by_queues(hall, std::move(joining)); }};
}

inline const bool added = (add_transport(queues()), true);

}  // namespace own
