// An intrusive queue, first in, first out: its elements hold the link to the next. It allocates and owns nothing.
#pragma once

namespace ripieno {

template <class T, T* T::*next>
class QueueOf {
 public:
  bool empty() const { return !first_; }
  T* first() const { return first_; }
  void push(T* one) {
    one->*next = nullptr;
    (first_ ? last_->*next : first_) = one;
    last_ = one;
  }
  /// Must not be empty.
  T* pop() {
    T* const one = first_;
    first_ = one->*next;
    return one;
  }

 private:
  T* first_ = nullptr;
  T* last_ = nullptr;
};

}  // namespace ripieno
