//! Kafka's requests by number (kafka.apache.org/protocol, "API Keys").

/// What is known of one kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Api {
    pub(super) key: i16,
    pub(super) name: &'static str,
    /// The first version with compact lengths and tagged fields; none has them
    /// where it is beyond the newest.
    flexible_from: i16,
    /// Part of the upkeep of a client or of a broker: it makes a span only if it
    /// fails. Fetches are seen to when they are answered.
    pub(super) upkeep: bool,
}

/// The newest version of any request is well below.
pub(super) const MAX_VERSION: i16 = 24;
const NEVER: i16 = i16::MAX;

pub(super) const PRODUCE: i16 = 0;
pub(super) const FETCH: i16 = 1;
pub(super) const METADATA: i16 = 3;
pub(super) const OFFSET_COMMIT: i16 = 8;
pub(super) const FIND_COORDINATOR: i16 = 10;
pub(super) const JOIN_GROUP: i16 = 11;
pub(super) const HEARTBEAT: i16 = 12;
pub(super) const LEAVE_GROUP: i16 = 13;
pub(super) const SYNC_GROUP: i16 = 14;
pub(super) const SASL_HANDSHAKE: i16 = 17;
pub(super) const API_VERSIONS: i16 = 18;
pub(super) const CREATE_TOPICS: i16 = 19;
pub(super) const DELETE_TOPICS: i16 = 20;
pub(super) const INIT_PRODUCER_ID: i16 = 22;
pub(super) const ADD_OFFSETS_TO_TXN: i16 = 25;
pub(super) const END_TXN: i16 = 26;
pub(super) const TXN_OFFSET_COMMIT: i16 = 28;
pub(super) const SASL_AUTHENTICATE: i16 = 36;
pub(super) const CONSUMER_GROUP_HEARTBEAT: i16 = 68;

const fn work(key: i16, name: &'static str, flexible_from: i16) -> Api {
    Api { key, name, flexible_from, upkeep: false }
}

const fn upkeep(key: i16, name: &'static str, flexible_from: i16) -> Api {
    Api { key, name, flexible_from, upkeep: true }
}

/// By key, without gaps.
const APIS: [Api; 93] = [
    work(0, "Produce", 9),
    work(1, "Fetch", 12),
    upkeep(2, "ListOffsets", 6),
    upkeep(3, "Metadata", 9),
    upkeep(4, "LeaderAndIsr", 4),
    upkeep(5, "StopReplica", 2),
    upkeep(6, "UpdateMetadata", 6),
    upkeep(7, "ControlledShutdown", 3),
    work(8, "OffsetCommit", 8),
    upkeep(9, "OffsetFetch", 6),
    upkeep(10, "FindCoordinator", 3),
    work(11, "JoinGroup", 6),
    upkeep(12, "Heartbeat", 4),
    work(13, "LeaveGroup", 4),
    work(14, "SyncGroup", 4),
    work(15, "DescribeGroups", 5),
    work(16, "ListGroups", 3),
    upkeep(17, "SaslHandshake", NEVER),
    upkeep(18, "ApiVersions", 3),
    work(19, "CreateTopics", 5),
    work(20, "DeleteTopics", 4),
    work(21, "DeleteRecords", 2),
    upkeep(22, "InitProducerId", 2),
    upkeep(23, "OffsetForLeaderEpoch", 4),
    upkeep(24, "AddPartitionsToTxn", 3),
    upkeep(25, "AddOffsetsToTxn", 3),
    work(26, "EndTxn", 3),
    upkeep(27, "WriteTxnMarkers", 1),
    work(28, "TxnOffsetCommit", 3),
    work(29, "DescribeAcls", 2),
    work(30, "CreateAcls", 2),
    work(31, "DeleteAcls", 2),
    work(32, "DescribeConfigs", 4),
    work(33, "AlterConfigs", 2),
    work(34, "AlterReplicaLogDirs", 2),
    work(35, "DescribeLogDirs", 2),
    upkeep(36, "SaslAuthenticate", 2),
    work(37, "CreatePartitions", 2),
    work(38, "CreateDelegationToken", 2),
    work(39, "RenewDelegationToken", 2),
    work(40, "ExpireDelegationToken", 2),
    work(41, "DescribeDelegationToken", 2),
    work(42, "DeleteGroups", 2),
    work(43, "ElectLeaders", 2),
    work(44, "IncrementalAlterConfigs", 1),
    work(45, "AlterPartitionReassignments", 0),
    work(46, "ListPartitionReassignments", 0),
    work(47, "OffsetDelete", NEVER),
    work(48, "DescribeClientQuotas", 1),
    work(49, "AlterClientQuotas", 1),
    work(50, "DescribeUserScramCredentials", 0),
    work(51, "AlterUserScramCredentials", 0),
    upkeep(52, "Vote", 0),
    upkeep(53, "BeginQuorumEpoch", 1),
    upkeep(54, "EndQuorumEpoch", 1),
    work(55, "DescribeQuorum", 0),
    upkeep(56, "AlterPartition", 0),
    work(57, "UpdateFeatures", 0),
    upkeep(58, "Envelope", 0),
    upkeep(59, "FetchSnapshot", 0),
    work(60, "DescribeCluster", 0),
    work(61, "DescribeProducers", 0),
    upkeep(62, "BrokerRegistration", 0),
    upkeep(63, "BrokerHeartbeat", 0),
    work(64, "UnregisterBroker", 0),
    work(65, "DescribeTransactions", 0),
    work(66, "ListTransactions", 0),
    upkeep(67, "AllocateProducerIds", 0),
    upkeep(68, "ConsumerGroupHeartbeat", 0),
    work(69, "ConsumerGroupDescribe", 0),
    upkeep(70, "ControllerRegistration", 0),
    upkeep(71, "GetTelemetrySubscriptions", 0),
    upkeep(72, "PushTelemetry", 0),
    upkeep(73, "AssignReplicasToDirs", 0),
    work(74, "ListConfigResources", 0),
    upkeep(75, "DescribeTopicPartitions", 0),
    upkeep(76, "ShareGroupHeartbeat", 0),
    work(77, "ShareGroupDescribe", 0),
    work(78, "ShareFetch", 0),
    work(79, "ShareAcknowledge", 0),
    upkeep(80, "AddRaftVoter", 0),
    upkeep(81, "RemoveRaftVoter", 0),
    upkeep(82, "UpdateRaftVoter", 0),
    upkeep(83, "InitializeShareGroupState", 0),
    upkeep(84, "ReadShareGroupState", 0),
    upkeep(85, "WriteShareGroupState", 0),
    upkeep(86, "DeleteShareGroupState", 0),
    upkeep(87, "ReadShareGroupStateSummary", 0),
    upkeep(88, "StreamsGroupHeartbeat", 0),
    work(89, "StreamsGroupDescribe", 0),
    work(90, "DescribeShareGroupOffsets", 0),
    work(91, "AlterShareGroupOffsets", 0),
    work(92, "DeleteShareGroupOffsets", 0),
];

/// The kind of request with this key, if it is known.
pub(super) fn api(key: i16) -> Option<&'static Api> {
    APIS.get(usize::try_from(key).ok()?)
}

impl Api {
    /// Whether a version has compact lengths and tagged fields.
    pub(super) const fn is_flexible(&self, version: i16) -> bool {
        version >= self.flexible_from
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_stand_at_their_keys() {
        for (index, known) in APIS.iter().enumerate() {
            assert_eq!(usize::try_from(known.key).unwrap(), index);
        }
        assert_eq!(api(-1), None);
        assert_eq!(api(999), None);
        assert!(api(PRODUCE).unwrap().is_flexible(9) && !api(PRODUCE).unwrap().is_flexible(8));
    }
}
