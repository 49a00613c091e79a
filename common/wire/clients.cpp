// Messages between clients and a coordinator as JSON.
#include "common/wire/events.h"
#include "common/wire/pack.h"
#include "common/wire/requests.h"

namespace cairn::wire {

CAIRN_MESSAGE(Hello);
CAIRN_MESSAGE(AskRegion);
CAIRN_MESSAGE(AskCheckpoint);
CAIRN_MESSAGE(SetInterval);
CAIRN_MESSAGE(RestartJoin);
CAIRN_MESSAGE(RestartLinks);
CAIRN_MESSAGE(RestartReady);
CAIRN_MESSAGE(RestartDone);
CAIRN_MESSAGE(Failed);
CAIRN_MESSAGE(Note);
CAIRN_MESSAGE(Phase);
CAIRN_MESSAGE(Progress);
CAIRN_MESSAGE(CheckpointDone);
CAIRN_MESSAGE(Killed);
CAIRN_MESSAGE(Process);
CAIRN_MESSAGE(Waiting);
CAIRN_MESSAGE(Go);
CAIRN_MESSAGE(Links);
CAIRN_MESSAGE(Release);
CAIRN_MESSAGE(Status);

}  // namespace cairn::wire
