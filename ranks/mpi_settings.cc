#include "ranks/mpi_settings.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

namespace overlapbench {
namespace {

struct Setting {
  const char* name;
  const char* value;
};
constexpr std::array<Setting, 5> kDefaults = {{
    // Many containers forbid copying directly between processes, and each attempt prints an error.
    {"OMPI_MCA_btl_vader_single_copy_mechanism", "none"},
    // An unreachable host counts as lost after 3 + 3 * 1 seconds of silence instead of 8 minutes.
    // That must be shorter than a rank's timeout, because TCP sends no probes while it has data to
    // send.
    {"OMPI_MCA_oob_tcp_keepalive_time", "3"},
    {"OMPI_MCA_oob_tcp_keepalive_intvl", "1"},
    {"OMPI_MCA_oob_tcp_keepalive_probes", "3"},
    // OpenMPI prints a page of addresses when a rank crashes. One line names the rank and the
    // signal.
    {"OMPI_MCA_opal_signal", ""},
}};

}  // namespace

void SetMpiDefaults() {
  for (const Setting& setting : kDefaults) setenv(setting.name, setting.value, 0);
}

bool IsMpiDefault(std::string_view setting) {
  return std::ranges::any_of(kDefaults, [&](const Setting& one) {
    return setting == std::string(one.name) + "=" + one.value;
  });
}

}  // namespace overlapbench
