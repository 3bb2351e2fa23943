// SPDX-License-Identifier: Apache-2.0

//go:build linux

package driver

import (
	"context"
	"log"

	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// Registration tells the kubelet where the driver's socket is.
type Registration struct {
	// Socket is the driver's own.
	Socket string
}

// GetInfo answers the kubelet that has found the registration socket.
func (r Registration) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: Name, Endpoint: r.Socket, SupportedVersions: []string{"1.0.0"},
	}, nil
}

// NotifyRegistrationStatus hears what came of it.
func (Registration) NotifyRegistrationStatus(
	_ context.Context, s *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	if s.GetPluginRegistered() {
		log.Print("the kubelet knows the driver")
	} else {
		log.Printf("the kubelet refuses the driver: %s", s.GetError())
	}
	return &registration.RegistrationStatusResponse{}, nil
}
