// Mail numbers: the number of each call by mail, and when its half of the mailbox is free
// (comm/cuda/peer_mail.h). All ranks count alike.
//
// A communicator's collectives take numbers from one sequence, and every call first publishes its
// number to the other ranks. A rank that publishes a number later than that of a half's last call
// has read the mail that this call left in the half.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace overlapbench {

inline constexpr std::size_t kMailHalves = 2;

class MailNumbers {
 public:
  struct Call {
    std::uint32_t number = 0;
    std::uint32_t free_at = 0;  // the half is free once the others publish this number or later
  };

  // The half of the mailbox that the next call uses.
  [[nodiscard]] std::size_t half() const { return half_; }

  // `last`: in, the last number that any call has taken; out, this call's. It is never 0, because
  // an unused mailbox holds zeros.
  Call Next(std::uint32_t& last) {
    if (++last == 0) ++last;
    const Call call{last, free_at_.at(half_)};
    free_at_.at(half_) = last + 1;
    half_ = (half_ + 1) % kMailHalves;
    return call;
  }

 private:
  std::size_t half_ = 0;
  std::array<std::uint32_t, kMailHalves> free_at_{};
};

}  // namespace overlapbench
