#include "restart/keep_capabilities.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/privileges.h"

namespace cairn::restart {

Result<> keep_capabilities() {
    __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2] = {};
    if (::syscall(SYS_capget, &header, data) != 0) return fail_errno("capget");
    for (auto& word : data) word.effective = word.inheritable = word.permitted;
    if (::syscall(SYS_capset, &header, data) != 0) return fail_errno("capset");
    for (unsigned long capability = 0; capability < 64; ++capability)
        (void)::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0);
    capabilities_have_changed();
    return {};
}

}  // namespace cairn::restart
