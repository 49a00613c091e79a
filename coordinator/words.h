// Events of the protocol as a person reads them.
#pragma once

#include <string>
#include <vector>

#include "coordinator/json.h"

namespace cairn::coordinator {

// What an event says, in lines without colours; nothing for events that a person need not see.
[[nodiscard]] std::vector<std::string> words_of(const Json& event);

// One line that is written over by the next: "writing 312 MiB of 1.20 GiB, 850 MiB/s, last 123 (bash)".
[[nodiscard]] std::string progress_words(const Json& event);

// Above the lines of `list`.
[[nodiscard]] std::string list_head();

}  // namespace cairn::coordinator
