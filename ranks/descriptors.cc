#include "ranks/descriptors.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "device/wait.h"

namespace overlapbench {
namespace {

[[noreturn]] void ThrowErrno(const char* call) {
  throw Error(fmt::format("{} failed: {}", call, std::strerror(errno)));
}

std::string RandomName() {
  std::array<std::uint64_t, 2> bits{};
  if (getrandom(bits.data(), sizeof(bits), 0) != sizeof(bits)) ThrowErrno("getrandom");
  return fmt::format("overlapbench-{:016x}", fmt::join(bits, ""));
}

// A datagram: the sender's rank, the descriptor and, when it arrives, the sender's user.
class Message {
 public:
  explicit Message(int rank = -1) : rank_(rank) {}
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] msghdr* header() { return &header_; }
  void SetDescriptor(int number) {
    auto* const control = reinterpret_cast<cmsghdr*>(space_.data());
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof(number));
    std::memcpy(CMSG_DATA(control), &number, sizeof(number));
    header_.msg_controllen = CMSG_SPACE(sizeof(number));
  }
  // What has arrived: every descriptor, and whether it is from this process's user.
  std::vector<Descriptor> Read(bool& is_own_user) {
    std::vector<Descriptor> received;
    for (cmsghdr* control = CMSG_FIRSTHDR(&header_); control != nullptr;
         control = CMSG_NXTHDR(&header_, control)) {
      const std::size_t bytes = control->cmsg_len - CMSG_LEN(0);
      if (control->cmsg_type == SCM_CREDENTIALS) {
        ucred sender{};
        std::memcpy(&sender, CMSG_DATA(control), sizeof(sender));
        is_own_user = sender.uid == getuid();
      }
      for (std::size_t at = 0; control->cmsg_type == SCM_RIGHTS && at < bytes; at += sizeof(int)) {
        int number = 0;
        std::memcpy(&number, CMSG_DATA(control) + at, sizeof(number));
        received.emplace_back(number);
      }
    }
    return received;
  }

 private:
  int rank_;
  // When sent, the first is the descriptor's.
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred)) + CMSG_SPACE(sizeof(int))> space_{};
  iovec part_{&rank_, sizeof(rank_)};
  msghdr header_{nullptr, 0, &part_, 1, space_.data(), space_.size(), 0};
};

// An address in Linux's abstract namespace: no file, and gone with the socket.
struct Address {
  explicit Address(const std::string& name) {
    const std::string path = '\0' + name;
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path));
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  }
  sockaddr_un address{};
  socklen_t length = 0;
};

}  // namespace

DescriptorSocket::DescriptorSocket()
    : name_(RandomName()),
      descriptor_(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
  if (descriptor_.empty()) ThrowErrno("socket");
  const int on = 1;  // before any message can arrive
  if (setsockopt(descriptor_.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) != 0)
    ThrowErrno("setsockopt");
  const Address own(name_);
  if (bind(descriptor_.get(), reinterpret_cast<const sockaddr*>(&own.address), own.length) != 0)
    ThrowErrno("bind");
}

void DescriptorSocket::Send(const std::string& name, int rank, const Descriptor& descriptor) const {
  Address to(name);
  Message message(rank);
  message.SetDescriptor(descriptor.get());
  message.header()->msg_name = &to.address;
  message.header()->msg_namelen = to.length;
  if (sendmsg(descriptor_.get(), message.header(), 0) < 0) ThrowErrno("sendmsg");
}

bool DescriptorSocket::Receive(std::vector<Descriptor>& descriptors) const {
  constexpr int kPatience_ms = 10;
  pollfd waiting{.fd = descriptor_.get(), .events = POLLIN, .revents = {}};
  poll(&waiting, 1, kPatience_ms);  // if nothing has arrived, recvmsg says so
  Message message;
  // MSG_TRUNC: the size that was sent.
  const ssize_t size = recvmsg(descriptor_.get(), message.header(), MSG_CMSG_CLOEXEC | MSG_TRUNC);
  if (size < 0) {
    if (errno == EAGAIN || errno == EINTR) return false;
    ThrowErrno("recvmsg");
  }
  bool is_own_user = false;
  std::vector<Descriptor> received = message.Read(is_own_user);
  const bool known = message.rank() >= 0 && message.rank() < std::ssize(descriptors);
  if (!is_own_user || size != sizeof(int) || !known || received.size() != 1) return true;
  descriptors[message.rank()] = std::move(received.front());
  return false;
}

std::vector<Descriptor> ExchangeDescriptors(Ranks& ranks, const Descriptor& own) {
  const std::string what = "sharing memory";
  std::unique_ptr<DescriptorSocket> socket;
  ranks.Together(what, [&] { socket = std::make_unique<DescriptorSocket>(); });
  const std::vector<std::string> names = ranks.Gather(socket->name(), what);
  std::vector<Descriptor> descriptors(ranks.size());
  const auto missing = [&]() -> std::optional<int> {
    for (int peer = 0; peer < ranks.size(); ++peer)
      if (peer != ranks.rank() && descriptors[peer].empty()) return peer;
    return std::nullopt;
  };
  const auto deadline = std::chrono::steady_clock::now() + ranks.timeout();
  int dropped = 0;
  // Ends on all ranks together: a socket may close once all its messages have been received.
  ranks.Together(what, [&] {
    for (int peer = 0; peer < ranks.size(); ++peer)
      if (peer != ranks.rank()) socket->Send(names[peer], ranks.rank(), own);
    while (const auto peer = missing()) {
      if (socket->Receive(descriptors)) ++dropped;
      ranks.ThrowIfOthersFailed();
      if (std::chrono::steady_clock::now() > deadline) {
        throw Error(fmt::format(
            "rank {} did not share its memory within {}; {} messages of other processes were "
            "dropped",
            *peer, InSeconds(ranks.timeout()), dropped));
      }
    }
  });
  return descriptors;
}

}  // namespace overlapbench
