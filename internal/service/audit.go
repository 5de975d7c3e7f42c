package service

import (
	"context"

	"github.com/trl-dev/trl/api"
)

// errNoAudit is the answer where the log is off; where it is on, package audit answers.
var errNoAudit = api.Errorf(api.CodeConflict, "audit log: is off; turn it on with the setting audit")

// AuditList refuses: there is no audit log.
func (s *Service) AuditList(context.Context, api.AuditListParams) (api.AuditListResult, error) {
	return api.AuditListResult{}, errNoAudit
}

// AuditSubscribe refuses: there is no audit log.
func (s *Service) AuditSubscribe(context.Context, api.AuditSubscribeParams) (api.Stream, error) {
	return nil, errNoAudit
}

// AuditVerify refuses: there is no audit log.
func (s *Service) AuditVerify(context.Context, api.AuditVerifyParams) (api.AuditVerifyResult, error) {
	return api.AuditVerifyResult{}, errNoAudit
}
