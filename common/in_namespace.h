// Work that has to be done in another network or IPC namespace (network_namespaces(7), ipc_namespaces(7)): a
// socket belongs for ever to the one that its maker was in, names, ports and connections are told and given
// there only, and so are System V objects and POSIX queues.
#pragma once

#include <functional>

#include "common/error.h"

namespace cairn {

struct NamespacePlace {
    int space = -1;  // a descriptor of the namespace; -1: the caller's own, where the work is simply done
    int user = -1;   // of the user namespace that it belongs to, for who has rights only there; -1: none
    // The user namespace is entered in any case, so that users are those of its own map whoever asks.
    bool as_its_users = false;
};

// By a process that has this memory and these descriptors while the calling thread waits, so that `work` may
// do and leave behind what it likes; but it is another process, with a working folder of its own. It enters
// the user namespace only if the other isn't to be had without (setns(2) asks for rights in the caller's
// own, which an ordinary user hasn't). The caller's PR_SET_DUMPABLE is kept.
[[nodiscard]] Result<> in_namespace(const NamespacePlace& place, const std::function<Result<>()>& work);

}  // namespace cairn
