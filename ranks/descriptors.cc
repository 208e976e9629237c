#include "ranks/descriptors.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>

#include "device/wait.h"

namespace overlapbench {
namespace {

[[noreturn]] void ThrowErrno(const char* call) {
  throw Error(fmt::format("{} failed: {}", call, std::strerror(errno)));
}

// A datagram: the sender's rank, and with it the descriptor.
class Message {
 public:
  explicit Message(int rank = -1) : rank_(rank) {}
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] msghdr* header() { return &header_; }
  void SetDescriptor(int number) {
    cmsghdr* const control = CMSG_FIRSTHDR(&header_);
    if (control == nullptr) return;  // never: the header has room for one
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof(number));
    std::memcpy(CMSG_DATA(control), &number, sizeof(number));
  }
  // -1 where none arrived.
  [[nodiscard]] int descriptor() {
    const cmsghdr* const control = CMSG_FIRSTHDR(&header_);
    if (control == nullptr || control->cmsg_type != SCM_RIGHTS) return -1;
    int number = -1;
    std::memcpy(&number, CMSG_DATA(control), sizeof(number));
    return number;
  }

 private:
  int rank_;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> space_{};
  iovec part_{&rank_, sizeof(rank_)};
  msghdr header_{nullptr, 0, &part_, 1, space_.data(), space_.size(), 0};
};

// An address in Linux's abstract namespace: no file, and gone with the socket.
struct Address {
  explicit Address(const std::string& name) {
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path + 1, sizeof(address.sun_path) - 1);
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  sockaddr_un address{};
  socklen_t length = 0;
};

class Socket {
 public:
  explicit Socket(const std::string& name)
      : descriptor_(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    if (descriptor_.empty()) ThrowErrno("socket");
    const Address own(name);
    if (bind(descriptor_.get(), reinterpret_cast<const sockaddr*>(&own.address), own.length) != 0)
      ThrowErrno("bind");
  }

  void Send(const std::string& name, int rank, const Descriptor& descriptor) const {
    Address to(name);
    Message message(rank);
    message.SetDescriptor(descriptor.get());
    message.header()->msg_name = &to.address;
    message.header()->msg_namelen = to.length;
    if (sendmsg(descriptor_.get(), message.header(), 0) < 0) ThrowErrno("sendmsg");
  }

  // Receives one descriptor into the sender's place, if one comes within a short time.
  void Receive(std::vector<Descriptor>& descriptors) const {
    constexpr int kPatience_ms = 10;
    pollfd waiting{descriptor_.get(), POLLIN, 0};
    if (poll(&waiting, 1, kPatience_ms) <= 0) return;
    Message message;
    if (recvmsg(descriptor_.get(), message.header(), MSG_CMSG_CLOEXEC) < 0) {
      if (errno == EAGAIN || errno == EINTR) return;
      ThrowErrno("recvmsg");
    }
    Descriptor received(message.descriptor());
    const bool known = message.rank() >= 0 && message.rank() < static_cast<int>(descriptors.size());
    if (received.empty() || !known)
      throw Error("a rank's socket received a message that is not from a rank");
    descriptors[message.rank()] = std::move(received);
  }

 private:
  Descriptor descriptor_;
};

}  // namespace

std::vector<Descriptor> ExchangeDescriptors(Ranks& ranks, const Descriptor& own) {
  const std::string what = "sharing memory";
  const std::string name = fmt::format("overlapbench-{}-{}", getpid(), ranks.rank());
  std::optional<Socket> socket;
  ranks.Together(what, [&] { socket.emplace(name); });
  const std::vector<std::string> names = ranks.Gather(name, what);
  std::vector<Descriptor> descriptors(ranks.size());
  const auto missing = [&] {
    for (int peer = 0; peer < ranks.size(); ++peer)
      if (peer != ranks.rank() && descriptors[peer].empty()) return peer;
    return -1;
  };
  const auto deadline = std::chrono::steady_clock::now() + ranks.timeout();
  // Ends on all ranks together: a socket may close once all its messages have been received.
  ranks.Together(what, [&] {
    for (int peer = 0; peer < ranks.size(); ++peer)
      if (peer != ranks.rank()) socket->Send(names[peer], ranks.rank(), own);
    while (missing() >= 0) {
      socket->Receive(descriptors);
      ranks.ThrowIfOthersFailed();
      if (std::chrono::steady_clock::now() > deadline) {
        throw Error(fmt::format("rank {} did not share its memory within {}", missing(),
                                InSeconds(ranks.timeout())));
      }
    }
  });
  return descriptors;
}

}  // namespace overlapbench
