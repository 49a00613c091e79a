#include "common/wire/glance.h"

#include "common/wire/pack.h"

namespace cairn::wire {

CAIRN_MESSAGE(Glance);

}  // namespace cairn::wire
