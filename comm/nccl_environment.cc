#include "comm/nccl_environment.h"

#include <fmt/core.h>

#include <array>
#include <cstdlib>

namespace overlapbench {
namespace {

// The numbers of P2P channels apply to all-to-alls, sends and receives, and NCCL_SYM_CTAS to the
// symmetric kernels.
constexpr std::array kOverriding = {
    "NCCL_MIN_CTAS",      "NCCL_MAX_CTAS",          "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NCHANNELS", "NCCL_MIN_P2P_NCHANNELS", "NCCL_MAX_P2P_NCHANNELS",
    "NCCL_SYM_CTAS",      "NCCL_CTA_POLICY",        "NCCL_CGA_CLUSTER_SIZE"};

}  // namespace

std::string NcclOverride() {
  for (const char* name : kOverriding) {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    return fmt::format(
        "{}={} in the environment overrides what the row's name says; unset it, and use --axis "
        "transport or comm_ctas",
        name, value);
  }
  return "";
}

}  // namespace overlapbench
