// Like std::function<void()>, but it is moved and never copied, and closures of up to four words allocate nothing.
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace ripieno {

class Callback {
 public:
  Callback() = default;
  Callback(std::nullptr_t) {}  // NOLINT: implicit, as of std::function
  template <class F>
    requires(!std::is_same_v<std::decay_t<F>, Callback> && std::is_invocable_v<std::decay_t<F>&>)
  Callback(F&& function) {  // NOLINT: implicit, as of std::function
    using Stored = std::decay_t<F>;
    if constexpr (fits<Stored>) {
      new (room_) Stored(std::forward<F>(function));
      actions_ = &inside<Stored>;
    } else {
      new (room_) Stored*(new Stored(std::forward<F>(function)));
      actions_ = &outside<Stored>;
    }
  }
  Callback(Callback&& other) noexcept { take(other); }
  Callback& operator=(Callback&& other) noexcept {
    if (this == &other) return *this;
    clear();
    take(other);
    return *this;
  }
  ~Callback() { clear(); }

  explicit operator bool() const { return actions_ != nullptr; }
  /// Must not be empty.
  void operator()() { actions_->call(room_); }

 private:
  static constexpr std::size_t room = 4 * sizeof(void*);
  template <class F>
  static constexpr bool fits =
      sizeof(F) <= room && alignof(F) <= alignof(void*) && std::is_nothrow_move_constructible_v<F>;

  struct Actions {
    void (*call)(void* room);
    void (*move)(void* to, void* from);  // destroys the object in `from`
    void (*end)(void* room);
  };
  template <class F>
  static F& at(void* room) {
    return *std::launder(static_cast<F*>(room));
  }
  template <class F>
  static constexpr Actions inside{[](void* room) { at<F>(room)(); },
                                  [](void* to, void* from) {
                                    new (to) F(std::move(at<F>(from)));
                                    at<F>(from).~F();
                                  },
                                  [](void* room) { at<F>(room).~F(); }};
  template <class F>
  static constexpr Actions outside{[](void* room) { (*at<F*>(room))(); },
                                   [](void* to, void* from) { new (to) F*(at<F*>(from)); },
                                   [](void* room) { delete at<F*>(room); }};

  void take(Callback& other) {
    actions_ = std::exchange(other.actions_, nullptr);
    if (actions_) actions_->move(room_, other.room_);
  }
  void clear() {
    if (actions_) std::exchange(actions_, nullptr)->end(room_);
  }

  const Actions* actions_ = nullptr;
  alignas(void*) std::byte room_[room];
};

}  // namespace ripieno
