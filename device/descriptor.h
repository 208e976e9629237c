// Descriptor: a file descriptor, closed when it goes out of scope.
#pragma once

#include <unistd.h>

#include <utility>

namespace overlapbench {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, kNone)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] int get() const { return number_; }
  [[nodiscard]] bool empty() const { return number_ < 0; }

 private:
  static constexpr int kNone = -1;
  int number_ = kNone;
};

}  // namespace overlapbench
